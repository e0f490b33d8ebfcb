"""Peers of dpcov by task: each module has one method, written from its paper or called."""
