"""The door for nodes: nginx with the configuration that ``deploy init`` wrote, or a stand-in that follows it."""

import http.client
import re
import shutil
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from paceline.federation.deploy.texts import HOME

NGINX = shutil.which("nginx")
SETTING = """\
daemon off; pid {folder}/nginx.pid; error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
{block}}}
"""


def configuration(deployment, inner, outer):
    """What was written, on other ports and with the files where they are."""
    text = (deployment / "nginx.conf").read_text().replace(HOME, str(deployment))
    return text.replace("listen 18443", f"listen 127.0.0.1:{outer}").replace("127.0.0.1:18000", f"127.0.0.1:{inner}")


def start_nginx(processes, text):
    file = processes.folder / "nginx.conf"
    file.write_text(SETTING.format(folder=processes.folder, block=text))
    return processes.start("nginx", NGINX, "-e", "stderr", "-c", str(file))


def start_stand_in(text):
    """A proxy in a thread that reads from nginx's configuration what it passes on, and where to."""
    (host, port), (upstream,) = re.findall(r"listen ([\d.]+):(\d+)", text)[0], re.findall(r"https://([\w.:]+);", text)
    certificate, key = (
        re.findall(rf"{word}\s+(\S+);", text)[0] for word in ("ssl_certificate", "ssl_certificate_key")
    )
    authority = ssl.create_default_context(cafile=re.findall(r"trusted_certificate (\S+);", text)[0])
    (passed,) = re.findall(r"location (\S+) {\s+proxy_pass", text)
    assert re.search(r"location / {\s+return 403;", text)

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not self.path.startswith(passed) or ".." in self.path:
                self.answer(403, b"", {})
                return
            there = http.client.HTTPSConnection(upstream, context=authority, timeout=60)
            there.request("POST", self.path, body, dict(self.headers))
            found = there.getresponse()
            self.answer(found.status, found.read(), found.headers)
            there.close()

        do_GET = do_POST

        def answer(self, status, body, headers):
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    class Doors(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request, address):  # the handshake in the connection's own thread
            with context.wrap_socket(request, server_side=True) as safe:
                super().finish_request(safe, address)

        def handle_error(self, request, address):
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = Doors((host, int(port)), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
