"""Two servers: a silo's sum in two shares, the second of which is sealed to the share server."""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from . import _native
from .errors import BadSetting, DpError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

SHARE_SERVER = -2
"""In the place of a silo's number: the node is the share server."""
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64
_FAILED = "the share server failed; its own log says why"

logger = logging.getLogger("dp_personal.flower")


@dataclass(frozen=True)
class Question:
    """What the shares of one sum answer: the same for all silos of a run, and public."""

    run: str
    step: int
    """Number of messages that the server has sent."""
    messages: str
    """Hash of these messages."""
    n_silos: int
    share_server: str
    """Public key of the server that receives the sealed shares."""

    def by(self, silo: int | None) -> bytes:
        """The question as one silo answers it, or the share server for all of them: bound to the answer by seal and signature."""
        parts = ["dp-personal share 1", self.run, self.step, self.messages, silo, self.n_silos, self.share_server]
        return json.dumps(parts).encode()


def hash_of(hashes: Sequence[str]) -> str:
    """One hash for those of all messages."""
    return sha256("\n".join(hashes).encode()).hexdigest()


class ReplyKey:
    """A key of the server for one reply of the share server, so that the SuperLink stores no sum in clear."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._key = X25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes_raw().hex()

    def open(self, sealed: bytes, question: Question) -> bytes:
        """The sum of the shares."""
        return _unsealed(sealed, self._key, question.by(None))


class ShareServer:
    """The second of two servers, on a SuperNode without users. The first one sees masks of each silo and the exact total.

    Its folder contains `key`, its private key; `silos.json`, the public keys of all silos; and `answered`, which sets of
    shares it has added up.

    # Privacy
    The share server sees uniform numbers, hashes of the messages, and the sizes of runs. It must be operated by somebody
    who does not collude with the first server: what both see is every silo's exact sum. It adds up the shares of all listed
    silos or none, and one set for each step of a run.
    """

    number: ClassVar[int] = SHARE_SERVER

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def public_key(self) -> str:
        """The public key to which silos seal their shares: `share_server` of their policies. Created on the first call."""
        return public_key_in(self.folder / "key", _sealing)

    def admit(self, silos: Sequence[str]) -> None:
        """State the public keys of all silos (`Silo.public_key`), in the order of their numbers.

        Check with the operator of each silo that the key is theirs: with a silo that the first server invented, the total
        of all contains fewer sums of others.
        """
        if not silos or any(not is_key(silo) for silo in silos) or len(set(silos)) != len(silos):
            raise BadSetting("the share server needs the public key of each silo, and each key once")
        replace(self.folder / "silos.json", json.dumps(list(silos)).encode())

    def total(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """The sum of the shares in a message of the first server, sealed to the key in it, or a refusal."""

        def answer() -> dict[str, Any]:
            try:
                return {"body": self._total(said)}
            except DpError as refused:
                return {"refused": str(refused)}

        return reply(answer, "the share server", _FAILED)

    def _total(self, said: Mapping[str, Any]) -> bytes:
        silos, sealed = json.loads((self.folder / "silos.json").read_text()), list(said["sealed"])
        if len(sealed) != len(silos):
            raise DpError(f"the share server adds up the shares of all {len(silos)} silos, and of no others; found {len(sealed)}")
        key = private_key_in(self.folder / "key", _sealing)
        own = key.public_key().public_bytes_raw().hex()
        question = Question(said["run"], said["step"], said["messages"], len(silos), own)
        shares = [
            _opened(share, key, silo, question.by(number)) for number, (silo, share) in enumerate(zip(silos, sealed, strict=True))
        ]
        total = _native.sum_of_shares(shares)
        self._record(question, sealed)
        return _sealed(total, said["to"], question.by(None))

    def _record(self, question: Question, sealed: list[bytes]) -> None:
        """Durably record the set of shares of a step, and refuse another one."""
        folder = self.folder / "answered"
        folder.mkdir(exist_ok=True)
        record = json.dumps([question.messages, hash_of([sha256(share).hexdigest() for share in sealed])]).encode()
        path = folder / sha256(json.dumps([question.run, question.step]).encode()).hexdigest()
        create(path, record)
        if path.read_bytes() != record:
            raise DpError("the share server has added up other shares for this step of the run")


def seal(share: bytes, signer: Path, question: Question, silo: int) -> bytes:
    """A share for the share server alone, signed with the silo's key in the file `signer`."""
    about = question.by(silo)
    sealed = _sealed(share, question.share_server, about)
    signature: bytes = private_key_in(signer, signing).sign(about + sealed)
    return signature + sealed


def _opened(signed: bytes, key: X25519PrivateKey, silo: str, about: bytes) -> bytes:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signature, sealed = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(silo)).verify(signature, about + sealed)
    except InvalidSignature:
        raise DpError(
            "a share is not signed for this request with the key that `silos.json` lists for its silo: check the order of the "
            "keys, and that all silos received the same messages and name this share server"
        ) from None
    return _unsealed(sealed, key, about)


def _suite() -> Any:
    """HPKE (RFC 9180) in its base mode."""
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def _sealed(content: bytes, to: str, about: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    sealed: bytes = _suite().encrypt(content, X25519PublicKey.from_public_bytes(bytes.fromhex(to)), about)
    return sealed


def _unsealed(sealed: bytes, key: X25519PrivateKey, about: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        content: bytes = _suite().decrypt(sealed, key, about)
    except InvalidTag:
        raise DpError("a sealed share was changed, or is for another key or another request") from None
    return content


def signing() -> Any:
    """The kind of a silo's key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey


def _sealing() -> Any:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey


def is_key(text: object) -> bool:
    """Whether this may be a public key, in the one way in which it is written: lower case, without spaces."""
    try:
        return isinstance(text, str) and len(key := bytes.fromhex(text)) == _KEY_BYTES and key.hex() == text
    except ValueError:
        return False


def private_key_in(path: Path, kind: Callable[[], Any]) -> Any:
    """The private key in a file."""
    return kind().from_private_bytes(bytes.fromhex(path.read_text()))


def public_key_in(path: Path, kind: Callable[[], Any]) -> str:
    """The public key of the private key in a file, which is created if there is none."""
    if not path.exists():
        create(path, kind().generate().private_bytes_raw().hex().encode())
    return str(private_key_in(path, kind).public_key().public_bytes_raw().hex())


def reply(work: Callable[[], dict[str, Any]], who: str, failed: str) -> dict[str, Any]:
    """The result, or a refusal with a fixed text; the cause is logged."""
    try:
        return work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of the compiled part is not an Exception
        logger.exception("%s failed", who)
        return {"refused": failed}


def replace(path: Path, content: bytes) -> None:
    """Replace a file durably; only its owner can read it."""
    _written(path, content).replace(path)
    _sync_folder(path)


def create(path: Path, content: bytes) -> None:
    """Create a file durably, with its whole content or not at all, if there is none; only its owner can read it."""
    new = _written(path, content)
    try:
        path.hardlink_to(new)
    except FileExistsError:
        pass
    finally:
        new.unlink()
    _sync_folder(path)


def _written(path: Path, content: bytes) -> Path:
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex}.new")
    with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return new


def _sync_folder(path: Path) -> None:
    if os.name != "nt":  # Windows cannot open folders
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
