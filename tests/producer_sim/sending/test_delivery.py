from __future__ import annotations

import pytest

from distributary.errors import ConfigError
from distributary.producer_sim.sending.delivery import Delivery, make_topic
from distributary.producer_sim.traffic.simulation import Simulation


@pytest.mark.parametrize("kafka", [{"security.of.what": "SSL"}, {"security.protocol": "foo"}])
def test_an_option_that_no_client_takes_is_the_settings_fault(kafka: dict[str, str]) -> None:
    settings = Simulation.of(format="json", events=1, bootstrap_servers="127.0.0.1:1", kafka=kafka)
    with pytest.raises(ConfigError, match=r"^target\.kafka does not work: [^\n]*security\."):
        make_topic(settings)
    with pytest.raises(ConfigError, match=r"^target\.kafka does not work: "):
        Delivery(settings)


def test_a_wrong_option_is_told_without_the_secrets() -> None:
    kafka = {"message.timeout.ms": "hunter2", "sasl.password": "hunter2"}
    settings = Simulation.of(format="json", events=1, bootstrap_servers="127.0.0.1:1", kafka=kafka)
    with pytest.raises(ConfigError) as raised:
        Delivery(settings)
    assert "hunter2" not in str(raised.value)
