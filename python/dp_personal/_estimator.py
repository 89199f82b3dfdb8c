"""Common parts of all estimators: parameters, pickling and cloning as in scikit-learn, runs, and released files."""

from __future__ import annotations

import contextlib
import inspect
import logging
import numbers
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from . import _html, _native, tables
from ._json import loads
from ._numpy import np
from .certificate import Certificate
from .errors import (
    BadSetting,
    DpWarning,
    LedgerMissing,
    OutputExists,
    PrivacyWarning,
    SettingType,
    bad_setting,
    not_fitted,
)
from .ledger import NO_LEDGER, Ledger
from .plan import Plan
from .report import Report

__all__: list[str] = []

_E = TypeVar("_E", bound="Estimator")
Given = list[tuple[str, str]]
Progress = bool | Callable[[int, int], object]

logger = logging.getLogger("dp_personal")
logger.addHandler(logging.NullHandler())


@dataclass(kw_only=True, repr=False, eq=False)
class Estimator:
    """Parameters are the constructor's arguments; what `fit` learned is in attributes whose names end with `_`."""

    epsilon: float = 1.0
    delta: float = 1e-5
    ledger: Any = None
    user: str | None = None
    split_seed: int | None = None
    no_split: bool = False
    publish_releases: bool = False
    data_set: str | None = None
    insecure_seed: int | None = None

    _settings: ClassVar[dict[str, str]] = {
        "user": "user_col",
        "item": "item_col",
        "rating": "rating_col",
        "target": "target_col",
        "features": "feature_cols",
    }
    """Settings of the command line that are called otherwise here."""
    _public_tables: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Parameters that may be public tables in memory, and the columns of plain lists."""
    _command: ClassVar[str]
    """The command of `dp` that trains it."""
    _not_settings: ClassVar[frozenset[str]] = frozenset({"ledger", "data_set"})
    """Parameters that are said otherwise."""

    _files: dict[str, bytes] = field(init=False)
    """The released files: all that a fitted estimator knows."""

    # parameters

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Names and defaults of the parameters."""
        all_of_them = inspect.signature(cls.__init__).parameters.values()
        return {parameter.name: parameter.default for parameter in all_of_them if parameter.name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """All parameters by name."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self: _E, **params: Any) -> _E:
        """Set parameters by name."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise BadSetting(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = (f"{name}={_brief(value)}" for name, value in self._changed().items())
        call = f"{type(self).__name__}({', '.join(given)})"
        return f"<fitted {call}>" if self.__sklearn_is_fitted__() else call

    def _changed(self) -> dict[str, Any]:
        defaults = self._parameters()
        return {name: value for name, value in self.get_params().items() if value is not defaults[name]}

    def _given(self, **more: Any) -> Given:
        """The parameters as settings of a workflow."""
        for name in ("epsilon", "delta"):
            if not isinstance(getattr(self, name), numbers.Real):
                raise bad_setting(name, getattr(self, name), "one number", SettingType)
        texts: Given = []
        for name, value in {**self.get_params(), **more}.items():
            if name in more or name not in self._not_settings:
                texts += ((self._settings.get(name, name), text) for text in _texts(value))
        return texts

    def _has_ledger(self) -> bool:
        return self.ledger is not None and self.ledger is not NO_LEDGER

    def _account(self, *, in_memory: bool) -> dict[str, Any]:
        """The settings that determine how the privacy loss is counted.

        Without `data_set`, a table in memory has the name of the ledger's file without its extension. A ledger that has
        that name with an extension, as `dp` gives it, keeps its own.
        """
        data_set = self.data_set
        if self.ledger is None:
            raise BadSetting(
                "`ledger` is None: give the file of a ledger, which counts all runs on these data "
                "(`dp.Ledger.create` makes one), or `dp.NO_LEDGER` for a run that is counted alone"
            )
        if self.ledger is NO_LEDGER:
            return {"no_ledger": True, "data_set": data_set}
        ledger = self.ledger if isinstance(self.ledger, Ledger) else Ledger(self.ledger)
        path = ledger.path
        if data_set is None and in_memory:
            own = str(ledger.as_dict()["data_set"]) if path.exists() else path.stem
            data_set = own if Path(own.removesuffix(".gz")).stem == path.stem else path.stem
        return {"ledger": os.fspath(path), "data_set": data_set}

    # runs

    @contextlib.contextmanager
    def _public_files(self) -> Iterator[dict[str, str]]:
        """Public tables in memory as files, and errors with the names that things have here."""
        given = ((name, self._public_value(name), columns) for name, columns in self._public_tables.items())
        names = {self._settings[name]: name for name in self._parameters() if name in self._settings}
        with tables.public_files(given) as files, tables.naming_settings(names):
            try:
                yield files
            except LedgerMissing as error:
                error.args = (f"{error.args[0]}: `dp.Ledger.create` makes one", *error.args[1:])
                raise

    def _public_value(self, name: str) -> Any:
        """Convert a parameter that may be a table."""
        return getattr(self, name)

    def _plan(self, plan: Callable[[Given], str], **more: Any) -> Plan:
        with self._public_files() as files:
            account = self._account(in_memory=False) if self._has_ledger() else {"no_ledger": True}
            return Plan(plan(self._given(**account, **files, **more)))

    def _run(
        self,
        fit: Callable[[Given, str | _native.Table, Listener], str],
        table: str | _native.Table,
        *,
        progress: Progress,
        resume: str | os.PathLike[str] | None,
        **more: Any,
    ) -> None:
        """Run a workflow on data, in a folder that is kept if `resume` names one."""
        account = self._account(in_memory=not isinstance(table, str))
        listener = Listener(progress)
        with _run_folder(resume) as out, self._public_files() as files:
            given = self._given(**account, **files, **more, out=os.fspath(out), resume=resume is not None and "ledger" in account)
            logger.info("%s", fit(given, table, listener))
            self._take(out)
            listener.warnings += [text for text in self._released_warnings() if text not in listener.warnings]
            listener.warnings = [tables.renamed(text, files) for text in listener.warnings]
        if self.insecure_seed is not None:
            warnings.warn("the noise was seeded: this model is NOT PRIVATE", PrivacyWarning, stacklevel=3)
        for text in listener.warnings:
            warnings.warn(text, DpWarning, stacklevel=3)

    # released files

    def _take(self, folder: Path) -> None:
        """Load the model of a folder into this estimator."""
        self._files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }
        self._load(folder)

    def _load(self, folder: Path) -> None:  # noqa: ARG002
        """Set the attributes from a model folder."""
        self.certificate_ = Certificate(self._files["certificate.json"].decode())

    def _released_warnings(self) -> list[str]:
        """Warnings that follow from what was released."""
        return loads(self._files.get("report.json", b"{}").decode()).get("warnings") or []

    def _check_is_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(type(self).__name__)

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        """Provide the released files as a folder."""
        self._check_is_fitted()
        with tempfile.TemporaryDirectory(prefix="dp-personal-") as folder:
            model = Path(folder) / type(self).__name__
            self._write(model)
            yield model

    def _write(self, folder: Path) -> None:
        for name, content in self._files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the released files to a folder, as `dp` does: `dp_personal.load` and `dp` can read it."""
        self._check_is_fitted()
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OutputExists(f"{folder} exists and is not replaced: give another folder, or remove it first")
        folder.mkdir(parents=True, exist_ok=True)
        self._write(folder)

    def verify(self) -> None:
        """Check the certificate and the released files that it covers; raises `CertificateError` if one does not match."""
        with self._folder() as folder:
            _native.verify(os.fspath(folder))

    def report(self) -> Report:
        """The page of `dp report`: the model's guarantee, and what was released and how."""
        with self._folder() as folder:
            return Report(_native.report(os.fspath(folder)))

    def _repr_html_(self) -> str:
        parameters = {name: _shown(value) for name, value in self._changed().items()}
        parts = [_html.facts(parameters.items())] if parameters else []
        if not self.__sklearn_is_fitted__():
            return _html.card("Estimator", type(self).__name__, _html.text("not fitted: `fit` learns and pays"), *parts)
        certificate = "".join(self.certificate_._html_parts())
        parts = [
            _html.text(self._learned()),
            _html.text(f"{self.certificate_._head()}."),
            _html.more("parameters", *parts) if parts else "",
            _html.more("certificate", certificate),
        ]
        return _html.card("Model", type(self).__name__, *parts)

    def _learned(self) -> str:
        """A sentence that describes the fitted model."""
        raise NotImplementedError

    @classmethod
    def _of_folder(cls: type[_E], folder: Path) -> _E:
        """The estimator of a saved model, with the parameters recorded in its report."""
        known = cls._parameters()
        model = cls()
        report = folder / "report.json"
        run = (loads(report.read_text()).get("run") or {}) if report.exists() else {}
        values = {**run.get("given", {}), **run.get("target", {})}
        for name in known:
            value = values.get(cls._settings.get(name, name))
            if value is not None and name not in cls._public_tables:
                setattr(model, name, value)
        model._take(folder)
        return model

    # scikit-learn protocol

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_files")

    def __getstate__(self) -> dict[str, Any]:
        state = self.get_params()
        if self.__sklearn_is_fitted__():
            state["_files"] = self._files
        if hasattr(self, "_metadata_request"):
            state["_metadata_request"] = self._metadata_request
        return {**state, "_version": _native.__version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        state.pop("_version", None)
        self.__dict__.update(state)
        if self.__sklearn_is_fitted__():
            with self._folder() as folder:
                self._load(folder)


@contextlib.contextmanager
def _run_folder(resume: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder of a run. A temporary folder is kept if the run was interrupted after it had paid."""
    if resume is not None:
        yield Path(resume)
        return
    folder = Path(tempfile.mkdtemp(prefix="dp-personal-"))
    try:
        yield folder / "run"
    except BaseException as error:
        if any(folder.iterdir()):
            note = f"what the run has paid for is kept: fit(..., resume={os.fspath(folder / 'run')!r}) goes on with it"
            logger.warning("%s", note)
            if hasattr(error, "add_note"):
                error.add_note(note)
        else:
            folder.rmdir()
        raise
    shutil.rmtree(folder)


class Listener:
    """Receives the progress and the warnings of a run."""

    def __init__(self, progress: Progress) -> None:
        self.progress = _bar if progress is True else progress or None
        self.warnings: list[str] = []

    def log(self, level: int, text: str) -> None:
        """Store a warning until the run has ended; pass on all other messages."""
        if level >= logging.WARNING:
            self.warnings.append(text)
        else:
            logger.log(level, "%s", text)


def _shown(value: Any) -> str:
    """A parameter as displayed in notebooks: only the name of a file, and a description of a table."""
    if isinstance(value, Ledger):
        return value.path.name
    if isinstance(value, str | os.PathLike):
        return Path(value).name
    return _brief(value)


def _brief(value: Any) -> str:
    """A parameter as an expression, or a description of a long value such as a table."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN and "\n" not in text else f"<{type(value).__name__}>"


_MOST_SHOWN = 120


def _bar(done: int, total: int) -> None:
    sys.stderr.write(f"\rrelease {done} of {total}" + ("\n" if done == total else ""))
    sys.stderr.flush()


def _texts(value: Any) -> list[str]:
    """A parameter as command-line text; empty if it is not given."""
    if value is None or value is False:
        return []
    if value is True:
        return ["true"]
    if isinstance(value, list | tuple | np.ndarray):
        return [text for one in value for text in _texts(one)]
    if isinstance(value, float | np.floating):
        return [repr(float(value))]
    return [os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)]
