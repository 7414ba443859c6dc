"""Clients, and servers, of libraries for Python, which scripts/interop/programs starts: drivers.py WHAT ARGUMENTS..."""
import json
import os
import sys
import urllib.request
import uuid


def ask_s3(url):
    import boto3
    from boto3.s3.transfer import TransferConfig
    from io import BytesIO
    client = boto3.client("s3", endpoint_url=url, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    content = os.urandom(20_000_000)
    client.upload_fileobj(BytesIO(content), "bucket", "a b/ä+", Config=TransferConfig(multipart_threshold=6_000_000))
    back = BytesIO()
    client.download_fileobj("bucket", "a b/ä+", back)
    assert back.getvalue() == content
    part = client.get_object(Bucket="bucket", Key="a b/ä+", Range="bytes=5-14")["Body"].read()
    assert part == content[5:15]
    for number in range(50):
        client.put_object(Bucket="bucket", Key=f"small/{number}", Body=b"x" * number)
    assert len(client.list_objects_v2(Bucket="bucket", Prefix="small/")["Contents"]) == 50
    link = client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "small/7"})
    assert urllib.request.urlopen(link).read() == b"x" * 7
    client.delete_object(Bucket="bucket", Key="a b/ä+")


def serve_grpc(port):
    import grpc
    from concurrent import futures
    handlers = {
        "One": grpc.unary_unary_rpc_method_handler(lambda asked, _: asked[::-1]),
        "Many": grpc.unary_stream_rpc_method_handler(lambda asked, _: (asked for _ in range(1000))),
        "Both": grpc.stream_stream_rpc_method_handler(lambda asked, _: (one[::-1] for one in asked)),
    }
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("programs.Echo", handlers)])
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


def ask_grpc(address):
    import grpc
    with grpc.insecure_channel(address) as channel:
        one = channel.unary_unary("/programs.Echo/One")
        assert all(one(text, timeout=30) == text[::-1] for text in [b"", b"abc", os.urandom(3_000_000)])
        many = list(channel.unary_stream("/programs.Echo/Many")(b"x" * 5000, timeout=60))
        assert many == [b"x" * 5000] * 1000
        texts = [str(number).encode() for number in range(1000)]
        assert list(channel.stream_stream("/programs.Echo/Both")(iter(texts), timeout=60)) == [text[::-1] for text in texts]
        try:
            channel.unary_unary("/programs.Echo/None")(b"", timeout=30)
            raise AssertionError("there is no such method")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error


def ask_kernel(url):
    import websocket
    asked = urllib.request.Request(url + "/api/kernels", data=b"{}", method="POST", headers={"Content-Type": "application/json"})
    kernel = json.load(urllib.request.urlopen(asked, timeout=60))["id"]
    socket = websocket.create_connection(url.replace("http", "ws", 1) + f"/api/kernels/{kernel}/channels", timeout=60)
    header = {"msg_id": uuid.uuid4().hex, "username": "", "session": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
    code = {"code": "print(6 * 7)", "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
    socket.send(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "content": code, "channel": "shell", "buffers": []}))
    while True:
        message = json.loads(socket.recv())
        if message["msg_type"] == "stream" and message["content"]["text"].strip() == "42":
            break
    socket.close()
    urllib.request.urlopen(urllib.request.Request(url + f"/api/kernels/{kernel}", method="DELETE"), timeout=60)


def ask_tus(url):
    content = os.urandom(5_000_000)
    fields = {"Tus-Resumable": "1.0.0"}
    made = urllib.request.Request(url + "/files/", data=b"", method="POST", headers={**fields, "Upload-Length": str(len(content))})
    location = urllib.request.urlopen(made, timeout=60).headers["Location"]
    assert location.startswith(url), f"{location} is not at {url}"
    at = 0
    while at < len(content):
        piece = content[at:at + 1_500_000]
        sent = urllib.request.Request(location, data=piece, method="PATCH", headers={
            **fields, "Upload-Offset": str(at), "Content-Type": "application/offset+octet-stream"})
        at = int(urllib.request.urlopen(sent, timeout=60).headers["Upload-Offset"])
        head = urllib.request.Request(place, method="HEAD", headers=fields)
        assert int(urllib.request.urlopen(head, timeout=60).headers["Upload-Offset"]) == at
    assert urllib.request.urlopen(place, timeout=60).read() == content


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
