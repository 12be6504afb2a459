#!/usr/bin/env python3
"""Writes a software bill of materials of an image: SPDX 2.3, as JSON, on stdout.

    sbom.py --name IMAGE STATUS STATIC    STATUS: the image's /var/lib/dpkg/status; STATIC: what `make static` fetched

Every installed Debian package with its version, source and architecture, as a package URL that scanners match with
Debian's security tracker; and what is in deltaq's own packages without being one: Plotly.js, Swagger UI, and in the
CUDA plugin NVIDIA's runtime. The same image gives the same document: its namespace is the hash of the rest, its time
is SOURCE_DATE_EPOCH. Standard library only."""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import urllib.parse

DEBIAN_RELEASE = re.compile(r'^(ID|VERSION_ID)="?([^"\n]*)', re.M)
OWN = ("deltaq", "deltaq-cuda")
SWAGGER = pathlib.Path(__file__).resolve().parents[2] / "tests/tools/swagger_ui.txt"  # the package that it comes out of


def stanzas(text):
    """The paragraphs of a control file as dictionaries; of folded fields the first line."""
    for paragraph in re.split(r"\n\n+", text.strip()):
        yield dict(re.findall(r"^([^\s:]+): ?(.*)$", paragraph, re.M))


def identifier(kind, text):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def debian_package(fields, release):
    """A package of Debian's, or one of ours."""
    name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
    source, _, source_version = fields.get("Source", name).partition(" ")
    qualifiers = {"arch": architecture, "distro": release}
    namespace = "generic" if name in OWN else "deb/debian"
    url = f"pkg:{namespace}/{urllib.parse.quote(name)}@{urllib.parse.quote(version)}"
    return {
        "SPDXID": identifier("Package", f"{name}-{architecture}"),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: deltaq" if name in OWN else "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "sourceInfo": f"built from source package {source} {source_version.strip('()') or version}",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "Apache-2.0" if name in OWN else "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": url + "?" + urllib.parse.urlencode(qualifiers)}],
    }


def bundled(name, version, licence, url, supplier):
    """What is inside a package of ours without being a package."""
    return {
        "SPDXID": identifier("Bundled", name),
        "name": name,
        "versionInfo": version,
        "supplier": supplier,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}],
    }


def plotly_version(path):
    found = re.search(r"plotly\.js (?:\([^)]*\) )?v(\d+\.\d+\.\d+)", path.read_text(errors="replace"))
    if found is None:
        raise SystemExit(f"sbom.py: {path} does not tell its version")
    return found[1]


def relation(element, kind, other):
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": other}


def fetched(static):
    """What `make static` leaves in its directory; Swagger UI where it could be had."""
    version = plotly_version(static / "plotly.js")
    yield bundled("plotly.js", version, "MIT", f"pkg:npm/plotly.js-dist@{version}", "Organization: Plotly")
    if (static / "swagger-ui.js").exists():
        package, version = re.match(r"([\w-]+)==(\S+)", SWAGGER.read_text()).groups()
        yield bundled("swagger-ui", version, "Apache-2.0", f"pkg:pypi/{package}@{version}", "Organization: SmartBear")


def bill(name, status, static, release, created):
    installed = [fields for fields in stanzas(status) if fields.get("Status", "").endswith(" installed")]
    packages = [debian_package(fields, release) for fields in sorted(installed, key=lambda f: f["Package"])]
    by_name = {package["name"]: package["SPDXID"] for package in packages}
    if "deltaq" not in by_name:
        raise SystemExit("sbom.py: deltaq is not installed there")
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", package["SPDXID"]) for package in packages]
    for package in fetched(static):
        packages.append(package)
        relations.append(relation(by_name["deltaq"], "CONTAINS", package["SPDXID"]))
    if "deltaq-cuda" in by_name:
        packages.append(bundled("cuda-cudart-static", "NOASSERTION", "NOASSERTION",
                                "pkg:generic/nvidia/cuda-cudart-static", "Organization: NVIDIA"))
        relations.append(relation(by_name["deltaq-cuda"], "STATIC_LINK", packages[-1]["SPDXID"]))
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "creationInfo": {"created": created, "creators": ["Tool: deltaq-sbom", "Organization: deltaq"]},
        "packages": packages,
        "relationships": relations,
    }
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    return document | {"documentNamespace": f"urn:deltaq:image:{name}:{digest}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("status", type=pathlib.Path)
    parser.add_argument("static", type=pathlib.Path)
    arguments = parser.parse_args()
    found = dict(DEBIAN_RELEASE.findall(pathlib.Path("/etc/os-release").read_text()))
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or arguments.status.stat().st_mtime)
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = bill(arguments.name, arguments.status.read_text(), arguments.static,
                    f"{found['ID']}-{found.get('VERSION_ID', 'sid')}", created)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
