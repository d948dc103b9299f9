"""What is told of client options, and what is not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from distributary import passed_on_options
from distributary.passed_on_options import ClientOptions, is_literal_secret, without_secrets
from distributary.values import MASK, Group, WrongValues

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3 cret";'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Login module control flag 's3' is not known", f"Login module control flag '{MASK}' is not known"),
        ("password is wrong for me", f"password is wrong for {MASK}"),
        ("the store says hush-hush, twice: hush-hush", f"the store says {MASK}, twice: {MASK}"),
        ("no PlainLoginModule, required", "no PlainLoginModule, required"),
        ("/keys/me.jks is not there", f"/keys/{MASK}.jks is not there"),
        ("messy", "messy"),
    ],
)
def test_a_text_that_quotes_a_secret_is_told_without_it(text: str, told: str) -> None:
    options = {
        "bootstrap.servers": "twice:1",
        "sasl.jaas.config": JAAS,
        "ssl.keystore.password": "hush-hush",
        "ssl.keystore.location": "/keys",
        "ssl.key.password": "",
    }
    assert without_secrets(text, options) == told


@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "sasl.password",
        "sasl.jaas.config",
        "listener.name.sasl_ssl.plain.sasl.jaas.config",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
def test_the_secrets_of_both_clients_are_never_shown_and_never_taken_from_a_file(name: str) -> None:
    value = "password=hunter2"
    assert "hunter2" not in repr(ClientOptions({name: value}))
    assert "hunter2" not in without_secrets(f"no good: {value}", {name: value})
    assert is_literal_secret(name, value)


TOKENS = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://me:hunter2@a:1/token", "code 400 for URL: http://me:hunter2@a:1/token"),
        ("http://me:hunter2@a:1/token", "nobody at me:hunter2@a:1"),
        ("http://me:hunter%322@a:1/token", "login hunter22 is unknown"),
        ("http://a:1/token?v=1&key=hunter2", "http://a:1/token?v=1&key=hunter2"),
        ("http://a:1/token?v=1&key=hunter2", "key hunter2 of query v=1&key=hunter2 is wrong"),
        ("me:hunter2@a:1/token?key=hunter2", "no protocol: me:hunter2@a:1/token?key=hunter2"),
    ],
)
def test_what_is_secret_of_an_address_is_not_told(address: str, said: str) -> None:
    assert "hunter2" not in without_secrets(said, {TOKENS: address})
    assert "hunter" not in repr(ClientOptions({"proxy.url": address, TOKENS: address}))


@pytest.mark.parametrize("said", ["hush-1", "'hush 1'", '"hush 1"'])
def test_a_secret_among_options_for_java_is_not_told(said: str) -> None:
    options = ClientOptions(
        {"spark.driver.extraJavaOptions": f"-Xss4m -Djavax.net.ssl.trustStorePassword={said} -Da.b=c"}
    )
    assert options.masked() == {
        "spark.driver.extraJavaOptions": f"-Xss4m -Djavax.net.ssl.trustStorePassword={MASK} -Da.b=c"
    }
    assert "hush" not in without_secrets(f"unknown option: {said}", options)
    nothing = {"spark.driver.extraJavaOptions": "-Da.password='' -Db=c"}
    assert without_secrets("as it was", nothing) == "as it was"


def test_what_is_not_secret_of_an_address_is_told() -> None:
    kafka = {TOKENS: "http://a:1/token?v=1", "sasl.password": "x://me"}
    assert without_secrets("http://a:1/token: 1 of 1 says no", kafka) == "http://a:1/token: 1 of 1 says no"
    assert without_secrets("not x://me", kafka) == f"not {MASK}"
    proxy = {"proxy.url": "http://a:1/token"}
    assert ClientOptions(proxy).masked() == proxy


def test_a_mask_within_a_value_is_taken_for_no_value() -> None:
    class Given(Group):
        kafka: ClientOptions

    with pytest.raises(ValidationError, match="is only shown in place of a secret"):
        Given.model_validate({"kafka": {TOKENS: f"http://{MASK}@a:1/token"}})


@pytest.mark.parametrize(
    "name",
    [
        "ssl.certificate.pem",
        "ssl.ca.pem",
        "ssl.key.location",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.username",
    ],
)
def test_what_anybody_may_see_is_shown(name: str) -> None:
    assert ClientOptions({name: "plain"}).masked() == {name: "plain"}
    assert not is_literal_secret(name, "plain")


@pytest.mark.parametrize(
    "name",
    [
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.assertion.private.key.file",
        "enable.sasl.oauthbearer.unsecure.jwt",
    ],
)
def test_a_name_that_only_speaks_of_a_secret_may_stand_in_the_file(name: str) -> None:
    assert not is_literal_secret(name, "plain")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ('username="u" password="Tr0ub"adour!9x";', "adour"),
        ('username="u" password="s3cr"hunter2@corp#1";', "hunter2"),
        ("username=u password=correct horse!battery;", "horse"),
        ("username='u' password='it's-hunter2!';", "s-hunter2"),
        ("username=u password=1234hunter;", "hunter"),
        ('username="u" password="two words";', "two words"),
    ],
)
def test_a_piece_of_a_password_as_javas_tokenizer_cuts_it_is_masked(settings: str, word: str) -> None:
    jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {settings}"
    said = f"Value not specified for key '{word}' in JAAS config"
    assert without_secrets(said, {"sasl.jaas.config": jaas}) == said.replace(word, MASK)


def test_a_control_flag_that_is_a_password_is_masked() -> None:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule hunter2!x username=u password=p;"
    said = "Invalid login module control flag 'hunter2' in JAAS config"
    assert "hunter2" not in without_secrets(said, {"sasl.jaas.config": jaas})


def test_the_login_modules_name_is_told() -> None:
    said = "no LoginModule found for org.apache.kafka.common.security.plain.PlainLoginModule"
    assert without_secrets(said, {"sasl.jaas.config": JAAS}) == said


def test_a_name_with_dots_that_was_taken_apart_is_told_as_one() -> None:
    """As `--set source.kafka.group.id=trial` does, and a file in which somebody wrote groups."""
    with pytest.raises(WrongValues) as wrong:
        passed_on_options._options(
            {"group": {"id": "hunter2"}, "sasl": {"oauthbearer": {"scope": "x"}}, "acks": ["all"]}
        )
    assert wrong.value.found == (
        (("group",), 'write one value; "group.id" is one name, which with --set stands in quotes'),
        (
            ("sasl",),
            'write one value; "sasl.oauthbearer.scope" is one name, which with --set stands in quotes',
        ),
        (("acks",), "write one value, in quotes"),
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sasl.jaas.config": {"hunter2": None}}, "write one value, in quotes"),
        (
            {"sasl": {"password": {"hunter2": None}}},
            'write one value; "sasl.password…" is one name, which with --set stands in quotes',
        ),
        (
            {"sasl": {"jaas": {"config": {"hunter2": None}}}},
            'write one value; "sasl.jaas…" is one name, which with --set stands in quotes',
        ),
    ],
)
def test_a_secret_that_yaml_takes_for_a_mapping_is_not_told(options: dict[str, object], told: str) -> None:
    """As `{hunter2}` is one, without quotes."""
    with pytest.raises(WrongValues) as wrong:
        passed_on_options._options(options)
    assert [why for _, why in wrong.value.found] == [told]
