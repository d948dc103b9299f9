"""What obstore's errors say of a store, and what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping

from obstore.exceptions import GenericError, InvalidPathError

from distributary.ingest.storage.place import Kind
from distributary.values import without_logins

# Azure writes a signature into the query of a URL.
_QUERY = re.compile(r"\?[^\s\"')]+")


# How the crate quotes what a server answered; where no answer came there is none.
_STATUS = re.compile(r"status code: (\d{3})")

# By RFC 9110 and RFC 6585: a request that came too slowly, and too many of them.
_LATER = (408, 429)


# By RFC 9110: to whom it is not known who asks, and who may not.
_REFUSED = (401, 403)

# Asked to delete many S3 answers for each by itself, without a status.
_OF_ONE = re.compile(r"\(code: (\w+)\)\s*(?:\n\n|\Z)")
_OF_ONE_LATER = ("InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout")

# What AWS's token service answers, with the status of what is refused, where too many ask for keys at once, or who issued a token did not answer it.
# https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
NO_KEYS_YET = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "IDPCommunicationError")
_NO_KEYS_YET = re.compile(f"<Code>({'|'.join(NO_KEYS_YET)})</Code>")


def is_denied(error: BaseException) -> bool:
    """Whether who asks may not: delete one of many files, or list a folder, of which the crate tells nothing but the status."""
    found, status = _OF_ONE.search(str(error)), _STATUS.search(str(error))
    of_one = found is not None and found[1] == "AccessDenied"
    return of_one or (status is not None and int(status[1]) in _REFUSED)


def is_of_a_name(error: BaseException) -> bool:
    """Whether the crate takes something that an answer names for no path, as where two slashes stand side by side."""
    return isinstance(error, InvalidPathError) or "invalid path" in str(error)


def is_outage(error: BaseException) -> bool:
    """Whether the store did not answer, or not for now: another try may be answered without anything being mended here."""
    of_one, status = _OF_ONE.search(str(error)), _STATUS.search(str(error))
    if of_one is not None and of_one[1] not in _OF_ONE_LATER:
        return False
    later = (
        status is None or int(status[1]) >= 500 or int(status[1]) in _LATER or _NO_KEYS_YET.search(str(error))
    )
    return bool(later) and isinstance(error, GenericError | OSError) and not is_of_a_name(error)


# What S3 and Azure answer: a code, words for it, and behind them what a request had in it, such as the token of its keys.
_ANSWER = re.compile(r"\ufeff?(?:<\?xml[^>]*>\s*)?<Error>.*?(?:</Error>|\Z)", re.DOTALL)
_CODE, _WORDS = (re.compile(f"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("Code", "Message"))


# Whom the crate asks where it has found no keys: the machine in the cloud that this may be, for those of its role.
_MACHINE = re.compile(
    r" https?://[^/\s]+/(latest/(api/token|meta-data)|metadata/identity|computeMetadata)\b", re.ASCII
)

_LOOKED_FOR: Mapping[Kind, str] = {
    "s3": (
        "in storage.s3.login, in the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and in AWS's own files only for a profile that "
        "storage.s3.login.profile names)"
    ),
    "azure": "in storage.azure, and in the variables of Azure's such as AZURE_STORAGE_ACCOUNT_KEY",
    "gcs": "in storage.gcs, in the variable GOOGLE_APPLICATION_CREDENTIALS, and in gcloud's own file",
}


def sentence(error: BaseException, kind: Kind) -> str:
    """What the crate and a store of this kind say of an error, on one line, without the former's debugging text, what stands behind URLs and tokens."""
    said = _ANSWER.sub(_answered, str(error)).partition("\n\n")[0].strip()
    said = without_logins(_QUERY.sub("?...", said))
    if _MACHINE.search(said) is None or kind not in _LOOKED_FOR:
        return said
    return f"no keys were found: they are looked for {_LOOKED_FOR[kind]}, and then this machine is asked for those of a role, which failed ({said})"


def _answered(found: re.Match[str]) -> str:
    told = (part.search(found[0]) for part in (_CODE, _WORDS))
    return ": ".join(" ".join(part[1].split()) for part in told if part is not None)
