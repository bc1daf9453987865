"""Amazon MSK's sign-in by IAM, as a table has it for Java's client, with tokens of Amazon's signer for Python.

    'properties.sasl.mechanism' = 'AWS_MSK_IAM'
    'properties.sasl.jaas.config' = 'software.amazon.msk.auth.iam.IAMLoginModule required;'
    'properties.sasl.client.callback.handler.class' = 'software.amazon.msk.auth.iam.IAMClientCallbackHandler'

librdkafka has no such mechanism. The brokers accept the same signature as a token of OAUTHBEARER. Options of the login
module: `awsProfileName`, `awsRoleArn`, `awsRoleSessionName`, `awsStsRegion`. Rules: aws-msk-iam-auth's
`IAMLoginModule`, `IAMClientCallbackHandler` and `MSKCredentialProvider`.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kvformat.registry.contract.errors import needs_extra

MECHANISM: Final = "AWS_MSK_IAM"
HANDLER: Final = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
OPTIONS: Final = ("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsStsRegion", "awsMaxRetries")
"""Options of the login module that are supported; retries are those of boto3."""
_SESSION: Final = "aws-msk-iam-auth"  # the name of a role's session, unless an option gives one
_REGION: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


def region_of(servers: str) -> str | None:
    """Return the region of MSK's brokers, by their names or by the environment; None if it is unknown."""
    match = _REGION.search(servers)
    return match[1] if match else next((os.environ[name] for name in _REGIONS if os.environ.get(name)), None)


def settings(region: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's settings for brokers in a region; `options` are those of the login module."""
    return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": functools.partial(_token, region, dict(options))}


def _token(region: str, options: Mapping[str, str], _: str) -> tuple[str, float]:
    """Sign a token, and return it with the time at which it expires, in seconds since 1970."""
    with needs_extra(f"'{MECHANISM}' needs aws-msk-iam-sasl-signer-python on the driver and the workers", extra="msk"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer
    sign: Callable[..., tuple[str, int]]
    if options.get("awsProfileName"):
        sign = functools.partial(signer.generate_auth_token_from_profile, region, options["awsProfileName"])
    elif options.get("awsRoleArn"):
        session = options.get("awsRoleSessionName") or _SESSION
        sign = functools.partial(signer.generate_auth_token_from_role_arn, region, options["awsRoleArn"], session)
    else:
        sign = functools.partial(signer.generate_auth_token, region)
    token, expires = sign()
    return token, expires / 1000
