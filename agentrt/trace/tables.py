"""The file of one run: its tables, and how it is opened to be written or read.

    run          one row: what ran, how it ended, what it added up to
    runtimes     the models it ran on; spans name them by `id`
    spans        the tree. `attributes` is a row of `attributes`, shared by spans that are alike
    attributes   JSON objects, each stored once
    generations  numbers and tokens of a generation, in columns so that they can be added up
    chunks       prompts as paths in a tree of chunks: what prompts begin with together is here once
    pieces       what each token that occurs stands for in bytes: with it ids are text
    contents     everything else that is text or large, by span and name of the attribute
    events       what happened within spans
    steps        what the engines did, many steps a row
    trees        the radix caches as they were at some moment

A file is written by one process, in WAL mode: others can read it meanwhile, and after a kill it is
whole up to the last commit.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest
from agentrt.trace.damage import RecordConnection, unreadable

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION_ID = 0x61727472  # "artr"
VERSION = 1
LOCKED_S = 5.0
"""How long a commit waits for somebody else who writes to the file, as no reader does."""

_TABLES = """
CREATE TABLE run (
    id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,
    started_ns INTEGER NOT NULL, ended_ns INTEGER,
    host TEXT NOT NULL, pid INTEGER NOT NULL, process_started REAL NOT NULL, agentrt TEXT NOT NULL,
    content INTEGER NOT NULL,
    spans INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
    generations INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0, sampled_tokens INTEGER NOT NULL DEFAULT 0,
    forced_tokens INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0, without_content INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE runtimes (id INTEGER PRIMARY KEY, model TEXT NOT NULL, attributes TEXT NOT NULL);
CREATE TABLE spans (
    id INTEGER PRIMARY KEY, parent INTEGER, kind TEXT NOT NULL, name TEXT NOT NULL,
    started_ns INTEGER NOT NULL, ended_ns INTEGER, status TEXT NOT NULL, attributes INTEGER
);
CREATE INDEX spans_by_parent ON spans (parent);
CREATE TABLE attributes (id INTEGER PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE generations (
    span INTEGER PRIMARY KEY, runtime INTEGER, input_tokens INTEGER, cached_tokens INTEGER,
    sampled_tokens INTEGER, forced_tokens INTEGER,
    queue_s REAL, prefill_s REAL, decode_s REAL,
    request_seed INTEGER, response_seed INTEGER,
    prompt INTEGER, output_ids BLOB, output_chars INTEGER
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY, runtime INTEGER NOT NULL, parent INTEGER, ids BLOB NOT NULL
);
CREATE TABLE pieces (
    runtime INTEGER, token INTEGER, bytes BLOB NOT NULL, PRIMARY KEY (runtime, token)
) WITHOUT ROWID;
CREATE TABLE contents (
    span INTEGER, key TEXT, data BLOB NOT NULL, PRIMARY KEY (span, key)
) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, span INTEGER NOT NULL, at_ns INTEGER NOT NULL, name TEXT NOT NULL,
    attributes TEXT NOT NULL
);
CREATE INDEX events_by_span ON events (span);
CREATE TABLE steps (
    id INTEGER PRIMARY KEY, runtime INTEGER NOT NULL, started_ns INTEGER NOT NULL,
    ended_ns INTEGER NOT NULL, count INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE trees (
    id INTEGER PRIMARY KEY, runtime INTEGER NOT NULL, at_ns INTEGER NOT NULL, data BLOB NOT NULL
);
"""


def create(path: Path) -> sqlite3.Connection:
    """A new, empty file, open to be written by any one thread at a time.

    Raises sqlite3.Error or OSError where that cannot be. A commit reaches the system, not the disk:
    it survives the process, and what a power cut can take is the last moments.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=False)  # prompts are nobody else's business
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=LOCKED_S)
    db.execute("PRAGMA synchronous = OFF")  # there is nothing to lose yet
    db.executescript(
        f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
        f"{_TABLES} COMMIT;"
    )
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def connect(path: Path) -> RecordConnection:
    """A file as it stands, read-only, seeing what is written to it meanwhile.

    Raises InvalidRequest for what is no record of a run, or one of another version; so do reads of
    one that is damaged.
    """
    if not path.is_file():
        raise InvalidRequest(f"there is no file {path}; give a record's, or the id of a run")
    try:
        db = _open(path)
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    if application != APPLICATION_ID or version != VERSION:
        db.close()
        raise InvalidRequest(
            f"{path} is no record of a run"
            if application != APPLICATION_ID
            else f"{path} is a record of version {version} and this agentrt reads {VERSION}; open "
            "it with the agentrt that wrote it"
        )
    return db


def _open(path: Path) -> RecordConnection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        return _looked_into(path, uri)
    except sqlite3.OperationalError:
        # A folder that cannot be written holds no lock file for WAL either: nobody writes there.
        return _looked_into(path, f"{uri}&immutable=1")


def _looked_into(path: Path, uri: str) -> RecordConnection:
    db = sqlite3.connect(uri, uri=True, check_same_thread=False, factory=RecordConnection)
    db.path = path
    sqlite3.Cursor(db).execute("SELECT 1 FROM sqlite_master").fetchone()
    return db
