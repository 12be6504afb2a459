"""Calls boto3, which build/objects has. stdin has JSON: the address, the region, the keys and the calls; stdout gets
the list of their answers."""

import json
import sys

import boto3


def main():
    asked = json.load(sys.stdin)
    clients, answers = {}, []
    for service, method, arguments in asked["calls"]:
        if service not in clients:
            clients[service] = boto3.client(service, endpoint_url=asked["url"], region_name=asked["region"],
                                            aws_access_key_id=asked["keys"]["access"],
                                            aws_secret_access_key=asked["keys"]["secret"])
        answers.append(getattr(clients[service], method)(**arguments))
    json.dump(answers, sys.stdout, default=str)


main()
