"""An S3 server for tests: OpenStack Swift with its s3api, all four of its servers in one process on loopback.

Usage: /usr/bin/python3 s3-server.py FOLDER PORT
  FOLDER  keeps everything, so that a server that was killed comes back with what it held
  PORT    of the S3 endpoint; 0 for any
On stdin, one line: {"users": {"tester": {"secret": "...", "groups": ".admin"}, ...}}. Ends when stdin does, and removes FOLDER then.
On stdout, one line when it listens: {"port": 12345}.
"""

import json
import logging
import os
import shutil
import sys
from time import monotonic

import eventlet

eventlet.monkey_patch()

from swift.common import utils  # noqa: E402

folder, port = os.path.abspath(sys.argv[1]), int(sys.argv[2])
settings = json.loads(sys.stdin.readline())

# Other modules read this file as they are imported.
utils.SWIFT_CONF_FILE = os.path.join(folder, "swift.conf")
for below in ("devices/sda1", "recon"):
    os.makedirs(os.path.join(folder, below), exist_ok=True)


def write(name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


write(
    "swift.conf",
    """[swift-hash]
swift_hash_path_suffix = test
[swift-constraints]
# S3 allows user metadata of 2 KiB.
max_meta_value_length = 2048
[storage-policy:0]
name = default
default = yes
""",
)

from swift.common import wsgi  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.storage_policy import reload_storage_policies  # noqa: E402

reload_storage_policies()


class ErrorsToStderr(logging.StreamHandler):
    """Instead of the system's log, which is none of a test's business."""

    def __init__(self, **_):
        super().__init__(sys.stderr)
        self.setLevel(logging.ERROR)

    def createLock(self):
        self.lock = utils.PipeMutex()


utils.ThreadSafeSysLogHandler = ErrorsToStderr

COMMON = f"""[DEFAULT]
swift_dir = {folder}
devices = {folder}/devices
recon_cache_path = {folder}/recon
mount_check = false
# A test's file system needs neither.
disable_fallocate = true
fallocate_reserve = 0
"""


def serve(sock, path):
    app = wsgi.loadapp(path, global_conf={"log_name": os.path.basename(path)})
    eventlet.spawn(
        wsgi.wsgi.server,
        sock,
        app,
        utils.NullLogger(),
        protocol=wsgi.SwiftHttpProtocol,
        socket_timeout=60,
        # SDKs look for "ETag", not for "Etag".
        capitalize_response_headers=False,
    )


for kind in ("account", "container", "object"):
    sock = eventlet.listen(("127.0.0.1", 0))
    # One part of one replica on one device: nothing is ever moved.
    builder = RingBuilder(4, 1, 0)
    device = {"id": 0, "region": 1, "zone": 1, "weight": 1, "device": "sda1"}
    builder.add_dev({**device, "ip": "127.0.0.1", "port": sock.getsockname()[1]})
    builder.rebalance()
    builder.get_ring().save(os.path.join(folder, f"{kind}.ring.gz"))
    # No updater runs: a container with a late update would leave an object out of its listing for good.
    late = "container_update_timeout = 60\nconn_timeout = 10\n" if kind == "object" else ""
    serve(sock, write(f"{kind}.conf", f"{COMMON}{late}[app:main]\nuse = egg:swift#{kind}\n{late}"))


class SmallCache:
    """tempauth wants a cache. This one knows which accounts and buckets there are, so that not every request asks for them again."""

    def __init__(self):
        self.known = {}

    def get(self, key, *_, **__):
        until, value = self.known.get(key, (0, None))
        return value if monotonic() < until else None

    def set(self, key, value, *_, time=0, **__):
        # What is not there may be made at any moment.
        if key.startswith(("account/", "container/")) and 200 <= value.get("status", 0) < 300:
            self.known[key] = (monotonic() + 1, value)

    def delete(self, key, *_, **__):
        self.known.pop(key, None)

    def __getattr__(self, _):
        return lambda *_, **__: None


class WithCache:
    def __init__(self, app):
        self.app = app
        self.cache = SmallCache()

    def __call__(self, env, start_response):
        env["swift.cache"] = self.cache
        return self.app(env, start_response)


filters = "catch_errors gatekeeper listing_formats s3api tempauth copy bulk slo dlo versioned_writes symlink".split()
options = {
    # Short pages, so that lists of a few dozen have several.
    "s3api": "location = us-east-1\ns3_acl = false\nmax_bucket_listing = 20\n",
    "tempauth": "".join(
        f"user_test_{name} = {user['secret']} {user['groups']}\n" for name, user in settings["users"].items()
    ),
    "versioned_writes": "allow_object_versioning = true\n",
}
proxy = write(
    "proxy.conf",
    COMMON
    + f"[pipeline:main]\npipeline = {' '.join(filters)} proxy-server\n"
    + "[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\nallow_account_management = true\n"
    # All servers are one process: one that is late is busy, and the only one there is to be asked.
    + "conn_timeout = 60\nnode_timeout = 60\nrecoverable_node_timeout = 60\nerror_suppression_limit = 1000000\n"
    + "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n{options.get(name, '')}" for name in filters),
)
endpoint = eventlet.listen(("127.0.0.1", port), reuse_addr=True)

original = wsgi.loadapp
wsgi.loadapp = lambda *args, **named: WithCache(original(*args, **named))
serve(endpoint, proxy)

print(json.dumps({"port": endpoint.getsockname()[1]}), flush=True)

# Whoever started it may be killed: then nobody would stop it, nor remove what it kept.
while True:
    eventlet.hubs.trampoline(0, read=True)
    if os.read(0, 4096) == b"":
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
