#!/usr/bin/env python3
"""Container files, the compose file and the Helm chart, as far as a machine without a container engine can tell.

    charts_test.py BIN_DIR SOURCE_DIR

With helm in PATH (or PENSTOCK_HELM), else with Helm's library from PyPI (helm.py; tests/run.sh installs it), the chart is linted and rendered with
several values, and what comes out is looked at; without any of them only what can be read in the templates is. Needs Python's yaml. The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
DEPLOY = SOURCE / "deploy"
CHART = DEPLOY / "helm/penstock"
passed = failed = skipped = 0

try:
    import yaml
except ImportError:
    yaml = None


def check(condition, what):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, flush=True)


def skip(what):
    global skipped
    skipped += 1
    print("[SKIP] " + what, flush=True)


def options(program):
    table = subprocess.run([BIN / program, "--settings-markdown"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"`--(?:\[no-\])?([a-z-]+)", table)) | {"config"}


OPTIONS = {name: options(name) for name in ("penstock-broker", "penstock-worker", "penstock-gateway")}


def unknown_options(program, words):
    return {word for word in re.findall(r"--([a-z-]+)", " ".join(words))} - OPTIONS[program]


# ---- Dockerfile

def needed_packages(program):
    """Debian packages of the shared libraries that a program loads."""
    out = subprocess.run(["ldd", BIN / program], capture_output=True, text=True).stdout
    return {os.path.realpath(path) for path in re.findall(r"=> (/\S+)", out)}


def dockerfile():
    text = (DEPLOY / "docker/Dockerfile").read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)", text, re.M)
    check({"build", "broker", "worker-cpu", "worker-gpu", "gateway"} <= set(stages), f"the Dockerfile has the stages that compose and the chart name: {stages}")
    for path in re.findall(r"^COPY (?!--from)(\S+) ", text, re.M):
        check((SOURCE / path).exists(), f"COPY {path} exists")
    for name in re.findall(r"PENSTOCK_([A-Z_]+)=", text):
        check(any(name.lower().replace("_", "-").removeprefix("gateway-") in known for known in OPTIONS.values()), f"PENSTOCK_{name} is a setting")
    check(text.count("USER 65532") >= 3, "nothing runs as root")
    listed = set(subprocess.run([DEPLOY / "install-deps.sh", "--list"], capture_output=True, text=True).stdout.split())
    for stage, program in (("broker", "penstock-broker"), ("worker-cpu", "penstock-worker"), ("gateway", "penstock-gateway"), ("cli", "penstock")):
        body = re.search(rf"^FROM base AS {stage}\n(.*?)(?=^FROM|\Z)", text, re.M | re.S).group(1)
        installed = re.search(r"--no-install-recommends (.*?) &&", body).group(1).split()
        if not shutil.which("dpkg-query"):
            continue
        base = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libtinfo6"}  # of the base image, or brought along by those above
        for library in sorted(needed_packages(program)):
            owner = subprocess.run(["dpkg-query", "-S", library], capture_output=True, text=True).stdout.split(":")[0]
            owner = owner or subprocess.run(["dpkg-query", "-S", library.replace("/usr/lib", "/lib", 1)], capture_output=True, text=True).stdout.split(":")[0]
            direct = library.split("/")[-1].split(".so")[0] in subprocess.run(["readelf", "-d", BIN / program], capture_output=True, text=True).stdout
            if direct and owner and owner not in base:
                check(owner in installed, f"the image {stage} has {owner}, which {program} loads")
    check(listed, "install-deps.sh lists packages")
    if shutil.which("dpkg-query") and "--sanitized" not in sys.argv:
        table = subprocess.run([DEPLOY / "image-sizes.sh", BIN.parent], capture_output=True, text=True).stdout
        sizes = {name: float(size) for name, size in re.findall(r"^(\S+) .* ([0-9.]+) MB$", table, re.M)}
        check(sizes.get("broker", 99) < 5 and sizes.get("worker-cpu", 99) < 25, f"images stay small: {sizes}")


# ---- compose

def compose():
    file = DEPLOY / "compose/compose.yaml"
    services = yaml.safe_load(file.read_text())["services"]
    check(set(services) == {"broker", "gateway", "redis", "worker-cpu", "worker-gpu", "prometheus", "grafana"}, "compose has the whole pool")
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", (DEPLOY / "docker/Dockerfile").read_text(), re.M))
    for name, service in services.items():
        build = service.get("build")
        if build:
            check(build["target"] in stages and (file.parent / build["context"] / build["dockerfile"]).exists(), f"{name} is built from a stage that there is")
            program = f"penstock-{name}" if name in ("broker", "gateway") else "penstock-worker"
            wrong = unknown_options(program, service["command"])
            check(not wrong, f"{name} gets options that there are: {wrong}")
            check(service["cap_drop"] == ["ALL"] and service["read_only"], f"{name} may do nothing beyond its work")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                check((file.parent / source).exists(), f"{name} mounts {source}, which exists")
        for port in service.get("ports", []):
            check(port.startswith("127.0.0.1:"), f"{name} publishes {port} on loopback alone")
        for other in service.get("depends_on", []):
            check(other in services, f"{name} waits for {other}")
    for name in ("prometheus.yml", "grafana-source.yml", "grafana-dashboards.yml"):
        check(yaml.safe_load((file.parent / name).read_text()), f"{name} is YAML")
    if shutil.which("promtool"):
        with tempfile.TemporaryDirectory() as folder:
            for part in (DEPLOY / "prometheus/alerts.yml", file.parent / "prometheus.yml"):
                shutil.copy(part, folder)
            check(subprocess.run(["promtool", "check", "config", f"{folder}/prometheus.yml"], capture_output=True).returncode == 0, "promtool likes compose's prometheus.yml")
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0:
        done = subprocess.run([docker, "compose", "-f", file, "config", "-q"], capture_output=True, text=True)
        check(done.returncode == 0, f"docker compose understands the file {done.stderr}")


# ---- the chart, read

def value_at(values, path):
    for part in path.split("."):
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True


def templates():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    check(json.loads((CHART / "values.schema.json").read_text())["properties"], "values.schema.json is JSON")
    check(yaml.safe_load((CHART / "Chart.yaml").read_text())["apiVersion"] == "v2", "Chart.yaml is a chart's")
    check((CHART / "alerts.yml").read_text() == (DEPLOY / "prometheus/alerts.yml").read_text(), "the chart has the alerts of deploy/prometheus")
    for file in sorted((CHART / "templates").iterdir()):
        text = file.read_text()
        opened = len(re.findall(r"{{-? *(?:if|range|with|define|block) ", text))
        check(opened == len(re.findall(r"{{-? *end *-?}}", text)), f"{file.name}: what is opened is closed")
        missing = {path for path in re.findall(r"(?:\$root|\$|\s|\()\.Values\.([A-Za-z.]+)", text) if not value_at(values, path)}
        check(not missing, f"{file.name} asks for values that there are: {missing}")
    for template, program in (("broker.yaml", "penstock-broker"), ("workers.yaml", "penstock-worker")):
        words = re.findall(r'^ *- "(--[^"]+)"', (CHART / "templates" / template).read_text(), re.M)
        wrong = unknown_options(program, words)
        check(len(words) >= 5 and not wrong, f"{template} gives {program} options that there are: {wrong}")
    wrong = set(values["broker"]["options"]) - OPTIONS["penstock-broker"]
    check(not wrong, f"and so do the values: {wrong}")
    return values


# ---- the chart, rendered

def helm_program():
    """The words of a command that understands `lint` and `template`; None = there is none."""
    program = os.environ.get("PENSTOCK_HELM") or shutil.which("helm")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = cache / "penstock/helm/bin/python"
    if program:
        return [program]
    return [python, Path(__file__).parent / "helm.py"] if python.exists() else None


def render(helm, *more):
    done = subprocess.run([*helm, "template", "shop", CHART, "--namespace", "ml", "--kube-version", "1.29.0", *more], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr
    return [d for d in yaml.safe_load_all(done.stdout) if d], ""


def of_kind(documents, kind):
    return [d for d in documents if d["kind"] == kind]


def look_at(documents, name):
    pods = {d["metadata"]["name"]: d["spec"]["template"] for d in of_kind(documents, "Deployment")}
    for deployment in of_kind(documents, "Deployment"):
        spec, pod = deployment["spec"], deployment["spec"]["template"]
        labels, wanted = pod["metadata"]["labels"], spec["selector"]["matchLabels"]
        check(wanted.items() <= labels.items(), f"{name}: the selector of {deployment['metadata']['name']} finds its pods")
        for container in pod["spec"]["containers"]:
            ports = {p["name"] for p in container["ports"]}
            probes = [container[p]["httpGet"]["port"] for p in ("startupProbe", "livenessProbe", "readinessProbe")]
            check(set(probes) <= ports, f"{name}: probes ask ports that there are")
            check(container["securityContext"]["runAsNonRoot"] and container["securityContext"]["capabilities"]["drop"] == ["ALL"], f"{name}: it may do nothing beyond its work")
            program = "penstock-broker" if container["name"] == "broker" else "penstock-worker"
            wrong = unknown_options(program, container["args"])
            check(not wrong, f"{name}: {container['name']} gets options that there are: {wrong}")
            grace = pod["spec"]["terminationGracePeriodSeconds"]
            check(grace >= 45, f"{name}: there is time to drain")
    for service in of_kind(documents, "Service"):
        selector = service["spec"]["selector"]
        found = [p for p in pods.values() if selector.items() <= p["metadata"]["labels"].items()]
        check(len(found) == 1, f"{name}: the service finds exactly one pod template")
        ports = {p["name"] for p in found[0]["spec"]["containers"][0]["ports"]}
        check({p["targetPort"] for p in service["spec"]["ports"]} <= ports, f"{name}: and its ports")
    broker = of_kind(documents, "Service")[0]["metadata"]["name"]
    workers = [p for n, p in pods.items() if "worker" in n]
    check(workers and all(f"--broker=tcp://{broker}:5551" in p["spec"]["containers"][0]["args"] for p in workers), f"{name}: workers ask for the broker by the service's name")
    for policy in of_kind(documents, "PodDisruptionBudget"):
        found = [p for p in pods.values() if policy["spec"]["selector"]["matchLabels"].items() <= p["metadata"]["labels"].items()]
        check(len(found) == 1, f"{name}: a disruption budget guards one pool")
    for scaler in of_kind(documents, "HorizontalPodAutoscaler") + of_kind(documents, "ScaledObject"):
        check(scaler["spec"]["scaleTargetRef"]["name"] in pods, f"{name}: a scaler scales a pool that there is")


EXPORTED = set()


def queries(documents):
    for scaled in of_kind(documents, "ScaledObject"):
        for trigger in scaled["spec"]["triggers"]:
            query = trigger["metadata"]["query"]
            if shutil.which("promtool"):
                with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                    yaml.safe_dump({"groups": [{"name": "x", "rules": [{"record": "x", "expr": query}]}]}, file)
                    file.flush()
                    check(subprocess.run(["promtool", "check", "rules", file.name], capture_output=True).returncode == 0, f"Prometheus understands the scaler's {query}")


def chart():
    helm = helm_program()
    if not helm:
        return skip("no helm here (PENSTOCK_HELM names one): the chart was read, not rendered")
    done = subprocess.run([*helm, "lint", "--strict", CHART], capture_output=True, text=True)
    check(done.returncode == 0, f"helm lint {done.stdout if done.returncode else ''}")
    everything = ["--set", "serviceMonitor.enabled=true,rules.enabled=true,pools.gpu.enabled=true,pools.gpu.scaling.kind=keda,pools.cpu.scaling.kind=hpa,models.claim=models,image.registry=r.example/"]
    for name, more in (("default", []), ("everything", everything), ("open network", ["--set", "networkPolicy.enabled=false,pools.cpu.minAvailable=0"])):
        documents, error = render(helm, *more)
        check(documents is not None, f"{name}: the chart renders {error}")
        if documents:
            look_at(documents, name)
            queries(documents)
    kinds = {d["kind"] for d in render(helm, *everything)[0]}
    wanted = {"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ScaledObject", "ServiceMonitor", "PodMonitor", "PrometheusRule"}
    check(wanted <= kinds, f"everything is there when it is wanted: {wanted - kinds}")
    check({d["kind"] for d in render(helm)[0]} == {"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"}, "and by default nothing that a bare cluster does not know")
    asleep = render(helm, "--set", "pools.cpu.scaling.kind=keda,pools.cpu.scaling.min=0")[0]
    broker = next(d for d in of_kind(asleep, "Deployment") if d["metadata"]["name"].endswith("broker"))
    words = broker["spec"]["template"]["spec"]["containers"][0]["args"]
    check("--wake-wait=10min" in words, "where a pool may have no worker, the broker holds its jobs")
    check(of_kind(asleep, "ScaledObject")[0]["spec"]["minReplicaCount"] == 0, "and the scaler may end the last one")
    check(not any("wake-wait" in w for d in of_kind(render(helm)[0], "Deployment") for w in d["spec"]["template"]["spec"]["containers"][0]["args"]), "else it does not")
    check(render(helm, "--set", "pools.cpu.scaling.kind=magic")[0] is None, "values that make no sense are refused by the schema")


def main():
    dockerfile()
    if yaml:
        compose()
        templates()
        chart()
    else:
        skip("no yaml for this Python (package python3-yaml): compose file and chart were not looked at")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
