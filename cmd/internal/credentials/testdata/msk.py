"""Writes msk.json: logins of AWS_MSK_IAM signed by botocore, AWS's library for Python (pip install botocore)."""
import datetime, json, sys, urllib.parse
import botocore, botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

cases = []
for host, region, token, at in [
    ("b-1.plant.abc123.c2.kafka.eu-west-1.amazonaws.com", "eu-west-1", None, "2026-01-31T08:00:00"),
    ("b-2.plant.abc123.c2.kafka.us-gov-west-1.amazonaws.com", "us-gov-west-1", None, "2026-02-28T23:59:59"),
    ("boot-x.c1.kafka-serverless.cn-north-1.amazonaws.com.cn", "cn-north-1", "to+ken/with=signs", "2026-01-01T00:00:00"),
    ("broker.example.com", "eu-central-1", "session", "2027-12-31T12:34:56"),
]:
    when = datetime.datetime.fromisoformat(at)
    botocore.auth.get_current_datetime = lambda remove_tzinfo=True: when  # the signer's clock
    req = AWSRequest(method="GET", url="https://%s/?Action=kafka-cluster%%3AConnect" % host)
    keys = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token)
    botocore.auth.SigV4QueryAuth(keys, "kafka-cluster", region, expires=300).add_auth(req)
    fields = {k.lower(): v[0] for k, v in urllib.parse.parse_qs(urllib.parse.urlsplit(req.url).query).items()}
    fields.update({"version": "2020_10_22", "host": host, "user-agent": "odradek"})
    cases.append({"host": host, "region": region, "token": token or "", "at": at + "Z", "want": fields})
json.dump({"botocore": botocore.__version__, "cases": cases}, open(sys.argv[1], "w"), indent=1)
