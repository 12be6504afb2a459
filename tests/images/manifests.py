"""The objects of deploy/kubernetes as `kubectl kustomize` renders them, and what their containers are run with."""

import functools
import pathlib
import shutil
import subprocess

import pytest
import yaml

KUBERNETES = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
PLACES = ("base", "overlays/gpu", "overlays/keda", "overlays/gpu-keda", "overlays/keda-jobs", "overlays/gpu-keda-jobs",
          "overlays/objects")


@functools.cache
def rendered(place):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: nothing renders the overlays")
    done = subprocess.run(["kubectl", "kustomize", KUBERNETES / place], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def find(place, kind, name):
    found = [item for item in rendered(place) if item["kind"] == kind and item["metadata"]["name"] == name]
    assert len(found) == 1, f"{place}: {len(found)} of {kind} {name}"
    return found[0]


def template(place, name):
    """Of the pods of a Deployment, or of the jobs that an autoscaler makes."""
    made = [item for item in rendered(place) if item["kind"] in ("Deployment", "ScaledJob")
            and item["metadata"]["name"] == name]
    assert len(made) == 1, f"{place}: {len(made)} of {name}"
    return made[0]["spec"].get("jobTargetRef", made[0]["spec"])["template"]


def pod(place, name):
    return template(place, name)["spec"]


def container(place, name):
    (found,) = pod(place, name)["containers"]
    return found


def environment(place, name, secrets):
    """What the kubelet makes of `env`; `secrets`: {(name, key): value}."""
    values = {}
    for entry in container(place, name).get("env", []):
        reference = entry.get("valueFrom", {}).get("secretKeyRef")
        values[entry["name"]] = secrets[reference["name"], reference["key"]] if reference else entry["value"]
    return values


def mounts(place, name, volumes):
    """{target: directory or "tmpfs"}; `volumes`: {claim: directory}."""
    sources = {volume["name"]: volumes[volume["persistentVolumeClaim"]["claimName"]]
               if "persistentVolumeClaim" in volume else "tmpfs" for volume in pod(place, name)["volumes"]}
    return {mount["mountPath"]: sources[mount["name"]] for mount in container(place, name)["volumeMounts"]}
