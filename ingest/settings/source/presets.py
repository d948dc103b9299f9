"""Kafka as a service: what each asks its clients for, rendered as options of Kafka's Java client.

https://docs.confluent.io/cloud/current/client-apps/config-client.html,
https://docs.aws.amazon.com/msk/latest/developerguide/configure-clients-for-iam-access-control.html and
https://learn.microsoft.com/azure/event-hubs/apache-kafka-configurations
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from distributary.values import Group, Name, Secret, Wrong

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

_IAM = "software.amazon.msk.auth.iam"

# By this name Event Hubs knows that the password is a connection string.
_CONNECTION_STRING = "$ConnectionString"

# Azure closes what says nothing for four minutes, and tells nobody.
_OF_EVENT_HUBS = {
    "connections.max.idle.ms": "180000",
    "metadata.max.age.ms": "180000",
    "request.timeout.ms": "60000",
}


class Preset(Group):
    """A service that Kafka is had from, and who logs in to it."""

    of: Literal["confluent_cloud", "msk_iam", "event_hubs"]
    """Which: Confluent Cloud; Amazon MSK by IAM, whose jar has to be on Spark's class path; Azure Event Hubs."""
    user: Name | None = None
    """The key of an API key, for `confluent_cloud`."""
    password: Secret = None
    """The secret of an API key, for `confluent_cloud`; the connection string of a namespace, for `event_hubs`."""
    role: Name | None = None
    """The ARN of a role to take on, for `msk_iam`; that of the machine, or what its environment says, unless given."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        wanted = {"confluent_cloud": {"user", "password"}, "event_hubs": {"password"}, "msk_iam": {"role"}}[
            self.of
        ]
        for name in ("user", "password", "role"):
            given = getattr(self, name) is not None
            if given and name not in wanted:
                yield (name,), f"{self.of} knows no {name}; leave it out"
            if not given and name in wanted - {"role"}:
                yield (
                    (name,),
                    f"{self.of} logs in by its {' and '.join(sorted(wanted, reverse=True))}; write it",
                )
        if self.role is not None and not re.fullmatch(r"[\w+=,.@:/-]+", self.role):
            yield ("role",), "it is no ARN; write it as arn:aws:iam::123456789012:role/reader"

    def options(self) -> dict[str, str]:
        """The options that it stands for, without `bootstrap.servers`."""
        if self.of == "msk_iam":
            role = "" if self.role is None else f' awsRoleArn="{self.role}"'
            return {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": f"{_IAM}.IAMLoginModule required{role};",
                "sasl.client.callback.handler.class": f"{_IAM}.IAMClientCallbackHandler",
            }
        user = self.user if self.of == "confluent_cloud" else _CONNECTION_STRING
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{_PLAIN} required username={_quoted(user)} password={_quoted(self.password)};",
            **(_OF_EVENT_HUBS if self.of == "event_hubs" else {}),
        }


def _quoted(value: object) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
