"""Functions of a release; no privacy cost. One file a question.

A function that takes a release and returns a `dpcov.core.show.result.Result` becomes a command by
``@command`` and a part of the report by ``@section`` (`dpcov.analysis.declared`); nothing else
lists it.
"""
