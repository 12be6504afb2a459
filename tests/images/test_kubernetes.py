"""deploy/kubernetes: every object holds to the schemas of Kubernetes' current versions, names what is there, and its
containers run in the image as the objects say: user, environment, read-only root, probes."""

import json
import pathlib
import re
import shutil
import subprocess

import jsonschema
import manifests
import oci
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEDA = {kind: json.loads((pathlib.Path(__file__).parent / f"keda_{kind.lower()}.json").read_text())
        for kind in ("ScaledObject", "ScaledJob")}
OBJECTS = {"base": 9, "gpu": 9, "keda": 10, "gpu-keda": 10, "keda-jobs": 8, "gpu-keda-jobs": 8,
           "objects": 10}
VERSIONS = 5  # Kubernetes' newest minor versions, of those that the validator has
SERVER, WORKER = "deltaq-serve", "deltaq-worker"


def versions():
    validator = pytest.importorskip("kubernetes_validate", reason="`make check-images` installs kubernetes-validate")
    known = [".".join(version.split(".")[:2]) for version in validator.utils.all_versions()]
    return sorted(set(known), key=lambda text: [int(part) for part in text.split(".")])[-VERSIONS:]


@pytest.mark.parametrize("place", manifests.PLACES)
def test_objects_hold_to_their_schemas(place):
    checked = versions()
    import kubernetes_validate
    for item in manifests.rendered(place):
        if item["apiVersion"].startswith("keda.sh/"):
            jsonschema.Draft202012Validator(KEDA[item["kind"]]).validate(item)
            if item["kind"] == "ScaledObject":
                continue
            item = {"apiVersion": "batch/v1", "kind": "Job", "metadata": item["metadata"],
                    "spec": item["spec"]["jobTargetRef"]}  # which it makes of it
        for version in checked:
            kubernetes_validate.validate(item, version, strict=True)
    assert len(manifests.rendered(place)) == OBJECTS[place.rsplit("/", 1)[-1]]


@pytest.mark.parametrize("place", manifests.PLACES)
def test_every_object_is_in_the_namespace(place):
    """Whatever namespace `kubectl` is set to."""
    named = {item["kind"]: item["metadata"].get("namespace") for item in manifests.rendered(place)}
    assert named.pop("Namespace") is None and set(named.values()) == {"deltaq"}, named


def test_a_misspelt_field_is_noticed():
    checked = versions()
    import kubernetes_validate
    item = json.loads(json.dumps(manifests.find("base", "Deployment", SERVER)))
    item["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(item, checked[-1], strict=True)


@pytest.mark.parametrize("place", manifests.PLACES)
@pytest.mark.parametrize("name", [SERVER, WORKER])
def test_pods_hold_to_the_restricted_standard(place, name):
    pod, container = manifests.pod(place, name), manifests.container(place, name)
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    assert pod["automountServiceAccountToken"] is False and "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("place", manifests.PLACES)
@pytest.mark.parametrize("name", [SERVER, WORKER])
def test_every_setting_is_an_option_of_the_command(place, name):
    container = manifests.container(place, name)
    (command,) = container["args"]
    told = subprocess.run([ROOT / "build/deltaq", command, "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"\[([A-Z_]+)\]$", told, re.M))
    assert {entry["name"] for entry in container["env"]} <= known


@pytest.mark.parametrize("place", manifests.PLACES)
def test_names_lead_to_what_is_there(place):
    """Selectors to labels, ports to names, the autoscaler to a gauge."""
    for item in manifests.rendered(place):
        spec = item.get("spec", {})
        if item["kind"] in ("PodDisruptionBudget", "NetworkPolicy", "Service"):
            wanted = spec.get("selector") or spec["podSelector"]
            wanted = wanted.get("matchLabels", wanted)
            chosen = [name for name in (SERVER, WORKER) if wanted.items() <=
                      manifests.template(place, name)["metadata"]["labels"].items()]
            assert chosen, item["metadata"]["name"]
        if item["kind"] == "Service":
            ports = {port["name"]: port["containerPort"] for port in manifests.container(place, SERVER)["ports"]}
            assert all(ports[port["targetPort"]] == port["port"] for port in spec["ports"])
        if item["kind"] == "Deployment":
            assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
            assert ("replicas" in spec) == (item["metadata"]["name"] == SERVER or not place.endswith("keda"))
        if item["kind"] in ("ScaledObject", "ScaledJob"):
            if item["kind"] == "ScaledObject":
                manifests.find(place, "Deployment", spec["scaleTargetRef"]["name"])
            (trigger,) = spec["triggers"]
            host, port, path = re.fullmatch(r"http://([\w-]+)\.deltaq\.svc\.cluster\.local:(\d+)(/\w+)",
                                            trigger["metadata"]["url"]).groups()
            assert manifests.find(place, "Service", host)["spec"]["ports"][0]["port"] == int(port)
            assert path == "/metrics"
            assert f"| `{trigger['metadata']['valueLocation']}` | gauge |" in (ROOT / "docs/running.md").read_text()


@pytest.mark.parametrize("place", manifests.PLACES)
def test_workers_and_server_have_secrets_of_their_own(place):
    secrets = {name: [entry["valueFrom"]["secretKeyRef"]["name"] for entry in manifests.container(place, name)["env"]
                      if "valueFrom" in entry] for name in (SERVER, WORKER)}
    assert secrets == {SERVER: ["deltaq-database"], WORKER: ["deltaq-database-worker"]}
    made = re.findall(r"create secret generic (\S+)", (ROOT / "docs/deploy.md").read_text())
    assert made == ["deltaq-database", "deltaq-database-worker"]


def ways_out(place):
    """The TCP ports that pods of the server and the workers reach."""
    policies = [item["spec"] for item in manifests.rendered(place) if item["kind"] == "NetworkPolicy"
                and item["spec"]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "deltaq"}]
    return {port["port"] for spec in policies for rule in spec["egress"] for port in rule["ports"]
            if port["protocol"] == "TCP"}


def test_the_overlay_for_objects_opens_their_ports_and_the_base_does_not():
    assert ways_out("base") == {53, 5432, 443}
    assert ways_out("overlays/objects") == ways_out("base") | {9000, 7480, 80}


@pytest.mark.parametrize("place", ["overlays/gpu", "overlays/gpu-keda", "overlays/gpu-keda-jobs"])
def test_the_overlay_for_gpus_changes_what_it_says(place):
    pod, container = manifests.pod(place, WORKER), manifests.container(place, WORKER)
    assert container["image"] == "deltaq:cuda"
    assert manifests.container(place, SERVER)["image"] == "deltaq:latest"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert {"name": "DELTAQ_DEVICE", "value": "cuda:0"} in container["env"] and pod["tolerations"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"}


@pytest.mark.parametrize("place", ["overlays/keda-jobs", "overlays/gpu-keda-jobs"])
def test_jobs_have_the_pods_of_the_workers_and_end_by_themselves(place):
    """Nothing but what a job needs is other than in the Deployment, which is not there beside them, and no disruption
    budget is left that would hold up every drain."""
    before, pod = manifests.template(place.replace("keda-jobs", "keda"), WORKER), manifests.template(place, WORKER)
    assert {item["kind"] for item in manifests.rendered(place)}.isdisjoint({"PodDisruptionBudget", "ScaledObject"})
    wanted = json.loads(json.dumps(before))
    wanted["spec"]["restartPolicy"] = "OnFailure"
    wanted["spec"]["containers"][0]["env"].append({"name": "DELTAQ_IDLE_EXIT", "value": "60"})
    assert pod == wanted


def test_the_overlay_in_the_documentation_renders(tmp_path):
    text = (ROOT / "docs/deploy.md").read_text()
    (overlay,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    shutil.copytree(manifests.KUBERNETES, tmp_path / "kubernetes")
    place = tmp_path / "kubernetes/overlays/own"
    place.mkdir()
    (place / "kustomization.yaml").write_text(overlay)
    rendered = manifests.rendered(place)
    (claim,) = [item for item in rendered if item["kind"] == "PersistentVolumeClaim"]
    images = {item["spec"]["template"]["spec"]["containers"][0]["image"] for item in rendered
              if item["kind"] == "Deployment"}
    assert claim["spec"]["storageClassName"] == "nfs" and images == {"registry.example.org/deltaq:0.1.0"}


# --- the containers of the objects, run by hand ----------------------------------------------------------------------


def begin(image, network, directory, name, volumes, secrets, **environment):
    return oci.Container(
        image, network, directory / f"{name}.log", *manifests.container("base", name)["args"],
        environment=manifests.environment("base", name, secrets) | environment,
        mounts=manifests.mounts("base", name, volumes), read_only=True,
        user="{runAsUser}:{runAsGroup}".format_map(manifests.pod("base", name)["securityContext"]))


@pytest.fixture
def database(image, network, tmp_path):
    """A PostgreSQL that others keep, reached over TCP with a password: the image has one."""
    data = oci.volume(tmp_path / "postgres")
    (binaries,) = (image.unpacked() / "usr/lib/postgresql").iterdir()
    script = (f"export PATH=/usr/lib/postgresql/{binaries.name}/bin:$PATH; echo secret >/tmp/password; "
              "initdb -U deltaq -A scram-sha-256 --pwfile=/tmp/password /data/pg >/tmp/initdb.log 2>&1; "
              "echo 'host all all all scram-sha-256' >>/data/pg/pg_hba.conf; "
              "exec postgres -D /data/pg -c listen_addresses='*' -c unix_socket_directories=/tmp")
    with oci.Container(image, network, tmp_path / "postgres.log", "-c", script, entrypoint=["bash"],
                              mounts={"/data": data, "/tmp": "tmpfs"}) as container:
        container.wait_for(lambda: "ready to accept connections" in container.output(), "PostgreSQL")
        yield f"postgresql://deltaq:secret@{oci.ADDRESS}:5432/postgres"


def probe(network, name, kind):
    """As the kubelet asks: by the pod's address."""
    container = manifests.container("base", name)
    asked = container[kind]["httpGet"]
    (port,) = [port["containerPort"] for port in container["ports"] if port["name"] == asked["port"]]
    return network.curl(f"http://{oci.ADDRESS}:{port}{asked['path']}")[0] == 200


def unfinished(network):
    """What KEDA reads."""
    (trigger,) = manifests.find("overlays/keda", "ScaledObject", WORKER)["spec"]["triggers"]
    port, path = re.search(r":(\d+)(/\w+)$", trigger["metadata"]["url"]).groups()
    text = network.curl(f"http://{oci.ADDRESS}:{port}{path}")[1]
    return float(re.search(rf"^{trigger['metadata']['valueLocation']} (\S+)$", text, re.M)[1])


def test_the_objects_run_as_they_are_written(image, network, database, tmp_path):
    data = oci.volume(tmp_path / "data")
    volumes, secrets = {"deltaq-data": data}, {("deltaq-database", "url"): database}
    secrets["deltaq-database-worker", "url"] = database.replace("deltaq:secret", "pods:other")
    with begin(image, network, tmp_path, SERVER, volumes, secrets) as server:
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            server.wait_for(lambda kind=kind: probe(network, SERVER, kind), kind)
        for made in (f"deltaq migrate --roles --database-url {database}",
                     f"psql -d {database} -c \"create role pods login password 'other' in role deltaq_worker\""):
            done = server.execute("sh", "-c", f"PATH=$PATH:$(echo /usr/lib/postgresql/*/bin); {made}")
            assert done.returncode == 0, done.stderr
        token = (data / "first-token").read_text().strip()
        status, _ = network.curl("-H", "Host: deltaq.deltaq.svc.cluster.local:8642", "http://127.0.0.1:8642/v1/runs",
                                 token=token)
        assert status == 200 and unfinished(network) == 0
        written = server.execute("touch", "/usr/written", user="0:0")
        assert written.returncode != 0 and "Read-only file system" in written.stderr, written.stderr
        run = oci.submit(network, token, data)
        server.wait_for(lambda: unfinished(network) == 1, "the gauge that brings a worker")
        with begin(image, network, tmp_path, WORKER, volumes, secrets) as worker:
            run = oci.settled(network, token, run)
            assert run["attempt"] == 0 and run["worker"], run
            server.wait_for(lambda: unfinished(network) == 0, "the gauge that lets the worker go")
            assert worker.stop() == 0, worker.output()
        assert server.stop() == 0, server.output()
    for line in (tmp_path / f"{SERVER}.log").read_text().splitlines():
        assert line.startswith("deltaq listening on ") or json.loads(line)["message"]
