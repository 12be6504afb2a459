"""Runs a notebook from its beginning and writes it with what it printed: `run_notebook.py NOTEBOOK OUT`."""

import pathlib
import sys

import nbclient
import nbformat

source, out = map(pathlib.Path, sys.argv[1:])
notebook = nbformat.read(source, as_version=4)
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3",
                        resources={"metadata": {"path": str(source.parent)}}).execute()
for cell in notebook.cells:
    cell.metadata.pop("execution", None)  # times of day
notebook.metadata.pop("language_info", None)
nbformat.write(notebook, out)
