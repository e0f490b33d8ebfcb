"""Analyses of a release, which have no privacy cost. Each file answers one question.

An analysis is a function from a release to a `dpcov.core.show.result.Result`. The decorator
``@command`` makes it a command, and ``@section`` adds it to the report. Both decorators are in
`dpcov.analysis.declared`. No other list of the analyses exists.
"""
