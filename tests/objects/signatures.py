"""Signs requests anew with botocore and compares. Run by build/objects/bin/python; stdin has JSON: the credentials and
the requests as they arrived, with the key that each was meant for. Prints a line for each that differs."""

import json
import re
import sys
import urllib.parse

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


class Replayed:
    """With the headers that the client says that it has signed, and no other."""

    def __init__(self, *arguments, signed):
        super().__init__(*arguments)
        self.signed = signed

    def headers_to_sign(self, request):
        headers = super().headers_to_sign(request)
        for name in set(headers.keys()) - set(self.signed):
            del headers[name]
        return headers


class ReplayedS3(Replayed, S3SigV4Auth):
    pass


class ReplayedSts(Replayed, SigV4Auth):
    pass


# How each service is signed, and the headers that must be.
SERVICES = {"s3": (ReplayedS3, {"host", "x-amz-date", "x-amz-content-sha256"}),
            "sts": (ReplayedSts, {"host", "x-amz-date"})}


def differs(given, request):
    headers = {name.lower(): value for name, value in request["headers"]}
    found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/(s3|sts)/aws4_request, "
                         r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})", headers.get("authorization", ""))
    if not found:
        return "no signature"
    access, _, region, service, signed, signature = found.groups()
    signed = signed.split(";")
    if service != request.get("service", "s3"):
        return f"signed for {service}"
    kind, needed = SERVICES[service]
    if not needed <= set(signed):
        return f"not signed: {signed}"
    if ("x-amz-security-token" in headers) != ("x-amz-security-token" in signed):
        return "the session is not signed"
    if access != given["access"] or headers.get("x-amz-security-token", "") != given["session"]:
        return f"signed by {access}"
    url = urllib.parse.urlsplit(request["target"])
    sent = AWSRequest(request["method"], f"http://{headers['host']}{url.path}",
                      headers={name: headers[name] for name in signed if name in headers},
                      data=request.get("body"), params=dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True)))
    sent.context["timestamp"] = headers["x-amz-date"]
    sent.url = f"http://{headers['host']}{request['target']}" if not url.query else sent.url
    auth = kind(Credentials(given["access"], given["secret"]), service, region, signed=signed)
    wanted = auth.signature(auth.string_to_sign(sent, auth.canonical_request(sent)), sent)
    return None if wanted == signature else "another signature"


def main():
    asked = json.load(sys.stdin)
    for request in asked["requests"]:
        fault = differs(asked["credentials"], request)
        if fault:
            print(f"{request['method']} {request['target']}: {fault}")


main()
