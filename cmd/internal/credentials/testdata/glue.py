"""Writes glue.json: requests to AWS Glue as boto3, AWS's library for Python, sends them (pip install boto3)."""
import datetime, json, sys
import boto3, botocore.auth
from botocore.awsrequest import AWSResponse
from botocore.config import Config

cases = []
for region, token, at, version in [
    ("eu-west-1", None, "2026-01-31T08:00:00", "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"),
    ("cn-north-1", "to+ken/with=signs", "2026-02-28T23:59:59", "0fd9c1ca-5b1a-4f05-9a0c-3e5a7e6cc9aa"),
    ("us-gov-west-1", "session", "2027-12-31T12:34:56", "6e2d7d4c-77d5-4c6a-8f5e-0a3f6f9f2b11"),
]:
    when = datetime.datetime.fromisoformat(at)
    botocore.auth.get_current_datetime = lambda remove_tzinfo=True: when  # the signer's clock
    client = boto3.client("glue", region_name=region, aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", aws_session_token=token)
    sent = []
    def send(request, **_):
        sent.append(request)
        class Raw:
            def stream(self, *_, **__):
                yield b"{}"
        return AWSResponse(request.url, 200, {}, Raw())
    client.meta.events.register("before-send.glue", send)
    client.get_schema_version(SchemaVersionId=version)
    r, text = sent[0], lambda v: v.decode() if isinstance(v, bytes) else v
    cases.append({"region": region, "token": token or "", "at": at + "Z", "version": version, "method": r.method, "url": r.url,
        "body": text(r.body), "headers": {k: text(v) for k, v in r.headers.items() if k in ("X-Amz-Target", "Content-Type", "X-Amz-Date", "Authorization",
            "X-Amz-Security-Token")}})
json.dump({"boto3": boto3.__version__, "cases": cases}, open(sys.argv[1], "w"), indent=1)
