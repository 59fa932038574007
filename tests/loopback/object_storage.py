"""A server that speaks enough of S3 for a client: objects of buckets, lists, and uploads in parts.

It refuses requests that aren't signed with its access key, as a real one does.
"""

import hashlib
import threading
import uuid
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

ACCESS_KEY, SECRET_KEY = "ours", "a secret of the object storage"


class ObjectStorage:
    """`objects` has the content of each object by bucket and name. `is_away` refuses everything."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.is_away = False
        self.asked: list[str] = []
        handler = type("Handler", (_Handler,), {"storage": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.url = f"s3://bucket/site?endpoint={self.address}&region=eu-1"

    def __enter__(self) -> "ObjectStorage":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    storage: ObjectStorage

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        size = headers.pop("length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", size)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def body(self) -> bytes:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return content
        whole = b""
        while content:
            head, _, content = content.partition(b"\r\n")
            size = int(head.split(b";")[0], 16)
            whole, content = whole + content[:size], content[size + 2 :]
            if not size:
                break
        return whole

    def handle_one(self) -> None:
        parts = urlsplit(self.path)
        self.bucket, _, self.name = unquote(parts.path).lstrip("/").partition("/")
        self.query = {name: values[0] for name, values in parse_qs(parts.query, True).items()}
        self.storage.asked.append(f"{self.command} {self.name}")
        content = self.body()
        if self.storage.is_away:
            return self.refuse(400, "AccessDenied")
        if f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
            return self.refuse(403, "InvalidAccessKeyId")
        return getattr(self, f"on_{self.command.lower()}")(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

    def on_get(self, _content: bytes) -> None:
        if not self.name:
            return self.list()
        found = self.storage.objects.get((self.bucket, self.name))
        if found is None:
            return self.refuse(404, "NoSuchKey")
        headers = {"Last_Modified": formatdate(usegmt=True), "ETag": etag(found)}
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            piece = found[int(first) : int(last or len(found)) + 1]
            where = f"bytes {first}-{int(first) + len(piece) - 1}/{len(found)}"
            return self.answer(206, piece, Content_Range=where, **headers)
        return self.answer(200, found, length=str(len(found)), **headers)

    on_head = on_get

    def list(self) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        rows, folders = "", set()
        for bucket, name in sorted(self.storage.objects):
            if bucket != self.bucket or not name.startswith(prefix):
                continue
            inside, found, _ = name[len(prefix) :].partition(delimiter or "\0")
            if found and delimiter:
                folders.add(prefix + inside + delimiter)
            else:
                rows += f"<Contents><Key>{escape(name)}</Key><Size>1</Size></Contents>"
        for folder in sorted(folders):
            rows += f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
        namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
        whole = f'<ListBucketResult xmlns="{namespace}"><IsTruncated>false</IsTruncated>{rows}'
        self.answer(200, f"{whole}</ListBucketResult>".encode())

    def on_put(self, content: bytes) -> None:
        if upload := self.query.get("uploadId"):
            self.storage.parts[upload][int(self.query["partNumber"])] = content
        else:
            self.storage.objects[self.bucket, self.name] = content
        self.answer(200, ETag=etag(content))

    def on_post(self, _content: bytes) -> None:
        if "uploads" in self.query:
            upload = uuid.uuid4().hex
            self.storage.parts[upload] = {}
            said = f"<UploadId>{upload}</UploadId>"
            whole = f"<InitiateMultipartUploadResult>{said}</InitiateMultipartUploadResult>"
            return self.answer(200, whole.encode())
        parts = self.storage.parts.pop(self.query["uploadId"])
        whole_file = b"".join(parts[number] for number in sorted(parts))
        self.storage.objects[self.bucket, self.name] = whole_file
        done = f"<ETag>{etag(whole_file)}</ETag>"
        body = f"<CompleteMultipartUploadResult>{done}</CompleteMultipartUploadResult>"
        return self.answer(200, body.encode())

    def on_delete(self, _content: bytes) -> None:
        self.storage.objects.pop((self.bucket, self.name), None)
        self.answer(204)


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
