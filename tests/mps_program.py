"""A stand-in for NVIDIA's MPS: `nvidia-cuda-mps-control`, its server, and `nvidia-smi`.

Written from NVIDIA's manual of MPS, its man page and logs that users published (drivers 510 to
580): commands, files in the pipe folder, exit statuses, words of both logs. It has not been
compared with real hardware yet: `contrib/fixtures/capture_mps.py` records what that does.
Which program it is, is in the name it is called by (`tests.mps_standin` installs it).

`standin.json` beside the programs makes them misbehave: {"start": "hang" or "fail" or "slow",
"deaf": [commands that get no answer], "status": "FAULT", "stubborn": true (neither quit nor
SIGTERM), "smi": "hang"}; "cards" are the lines that nvidia-smi prints. {"newer": true} is a
control program of the manual's release 615, which has static partitions (-S) and protocol 3 (-p 3);
{"unknown": 0} is the exit status for options that it does not know, as that of CUDA 13.0 has it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Any

CONTROL, SERVER, SMI = "nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-smi"
ABSENT = "Cannot find MPS control daemon process"
ALREADY = "An instance of this daemon is already running"
PERCENTAGE = ("set_default_active_thread_percentage", "get_default_active_thread_percentage")


def conduct(folder: str) -> dict[str, Any]:
    """How the programs in `folder` are to behave."""
    import json  # here and below: what only talks to a daemon starts as fast as it can

    try:
        with open(os.path.join(folder, "standin.json"), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except OSError:
        return {}
    return found


class Daemon:
    """The control daemon; one thread, and nothing that waits for a client."""

    def __init__(self, folder: str, pipe: str, logs: str, static: bool = False) -> None:
        self.folder, self.pipe, self.logs, self.static = folder, pipe, logs, static
        self.server: subprocess.Popen[bytes] | None = None
        self.status, self.percent = "ACTIVE", "100.0"
        self.clients: dict[socket.socket, int] = {}
        self.waiting: list[socket.socket] = []
        self.quitting: float | None = None

    def serve(self) -> None:
        """Until `quit` finds no client left."""
        import select

        listening = socket.socket(socket.AF_UNIX)
        listening.bind(os.path.join(self.pipe, "control"))
        listening.listen(64)
        os.chmod(os.path.join(self.pipe, "control"), 0o666)
        self.log("Control", f"Starting control daemon using socket {self.pipe}/control")
        self.log("Control", "CUDA MPS Control binary version: 12040")
        while not self.done():
            heard = [listening, *self.clients, *self.waiting]
            for ready in select.select(heard, [], [], 0.05)[0]:
                if ready is listening:
                    self.log("Control", "Accepting connection...")
                    self.waiting.append(listening.accept()[0])
                else:
                    self.hear(ready)
        self.end_server(0)
        for name in ("nvidia-cuda-mps-control.pid", "control"):
            os.unlink(os.path.join(self.pipe, name))

    def done(self) -> bool:
        """Whether `quit` was said and nobody is left to wait for."""
        if self.quitting is None or conduct(self.folder).get("stubborn"):
            return False
        return not self.clients or time.monotonic() > self.quitting

    def hear(self, ready: socket.socket) -> None:
        """What a client or a control program says."""
        try:
            told = ready.recv(4096).decode()
        except OSError:
            told = ""
        if not told:
            self.forget(ready)
            return
        for line in told.splitlines():
            words = line.split()
            if words and words[0] == "client":
                self.waiting.remove(ready)
                self.connect(ready, int(words[1]))
            elif words == ["fault"]:
                self.fault(ready)
            elif words and words[0] not in conduct(self.folder).get("deaf", ()):
                ready.sendall((self.command(words) + "\0").encode())

    def forget(self, ready: socket.socket) -> None:
        """A connection that ended."""
        if ready in self.waiting:
            self.waiting.remove(ready)
        pid = self.clients.pop(ready, None)
        if pid is not None:
            self.log("Server", f"Client {{PID: {pid}, Context ID: 0}} disconnected", "server.log")
            if self.status == "FAULT" and not self.clients:
                self.status = "ACTIVE"
        ready.close()

    def connect(self, ready: socket.socket, pid: int) -> None:
        """A client; the first one has the server started."""
        if self.quitting is not None or self.status == "FAULT":
            ready.sendall(b"not ready\n")
            ready.close()
            return
        if self.server is None:
            self.log("Control", f"NEW CLIENT {pid} from user {os.getuid()}: Server is not ready")
            self.start_server()
        else:
            self.log("Control", f"NEW CLIENT {pid} from user {os.getuid()}: Server already exists")
        self.clients[ready] = pid
        self.log("Server", f"Client {{PID: {pid}, Context ID: 0}} connected", "server.log")
        ready.sendall(b"ok\n")

    def start_server(self) -> None:
        """Run the server, as the manual says on the first client's behalf."""
        import subprocess

        self.server = subprocess.Popen([os.path.join(self.folder, SERVER)], close_fds=True)
        self.log("Control", f"Starting new server {self.server.pid} for user {os.getuid()}")
        self.log("Control", f"NEW SERVER {self.server.pid}: Ready")
        self.log("Server", "Active Threads Percentage set to 100.0", "server.log")

    def end_server(self, status: int) -> None:
        """End it, and with it every client."""
        if self.server is None:
            return
        self.server.kill()
        self.server.wait()
        self.log("Control", f"Server {self.server.pid} exited with status {status}")
        self.server = None
        for ready in list(self.clients):
            self.forget(ready)

    def fault(self, faulty: socket.socket) -> None:
        """A client's fatal exception; that client hears of it last, after its neighbours."""
        self.log("Control", "Server encountered a fatal exception. Shutting down")
        self.clients[faulty] = self.clients.pop(faulty)
        self.end_server(1)

    def command(self, words: list[str]) -> str:
        """The answer to one command of the manual."""
        known = [str(self.server.pid)] if self.server else []
        if words[0] == "get_server_list":
            return "\n".join(known)
        if words[0] == "get_server_status":
            self.status = conduct(self.folder).get("status", self.status)
            return self.status if words[1:] == known else f"Server {words[1]} not found"
        if words[0] == "get_client_list":
            return "\n".join(str(pid) for pid in self.clients.values())
        if words[0] == "start_server":
            self.start_server()
            return ""
        if words[0] == "shutdown_server":
            if words[-1] == "-f" or not self.clients:
                self.end_server(1 if self.clients else 0)
            return ""
        if words[0] in PERCENTAGE:
            self.percent = words[1] if len(words) > 1 else self.percent
            return f"{float(self.percent):.1f}"
        if words[0] == "quit":
            wait_s = float(words[2]) if words[1:2] == ["-t"] else 1e9
            self.quitting = time.monotonic() + wait_s
            return ""
        return self.newer(words, known)

    def newer(self, words: list[str], known: list[str]) -> str:
        """The answer to a command of the manual's release 615."""
        if words[0] == "sm_partition" and self.static:
            return f"Partition {words[2]}/D{words[3]} created"
        if words[0] == "lspart" and self.static:
            return "GPU Partition Free chunks\nGPU-cafe - 13"
        if words[:2] == ["server", "list"]:
            return "\n".join(known)
        return f'Unknown command "{" ".join(words)}"'

    def log(self, who: str, text: str, name: str = "control.log") -> None:
        """A line in the form of the real logs."""
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        with open(os.path.join(self.logs, name), "a", encoding="utf-8") as file:
            file.write(f"[{when}.000 {who} {os.getpid():5}] {text}\n")


def control(argv: list[str], folder: str) -> int:
    """`nvidia-cuda-mps-control [-d]`: its exit status."""
    pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    newer = bool(conduct(folder).get("newer"))
    if argv[1:] == ["-d"] or (newer and argv[1:] in (["-d", "-S"], ["-d", "-p", "3"])):
        return start(folder, pipe, static="-S" in argv)
    if argv[1:] == ["-v"]:
        print(f"CUDA MPS Control binary version: {13010 if newer else 12040}")
        return 0
    told = ["quit" if argv[1:] == ["-q"] else " ".join(argv[1:])] if newer else []
    if argv[1:] and not told:
        print(f"nvidia-cuda-mps-control: unknown option {argv[1]}")
        return int(conduct(folder).get("unknown", 1))
    for line in told if argv[1:] else sys.stdin:
        talk = socket.socket(socket.AF_UNIX)
        try:
            talk.connect(os.path.join(pipe, "control"))
            talk.sendall(line.encode())
            answer = talk.recv(65536)
        except OSError:
            answer = b""
        if not answer:
            print(ABSENT)
            return 1
        print(answer.rstrip(b"\0").decode(), end="\n" if len(answer) > 1 else "")
    return 0


def start(folder: str, pipe: str, static: bool = False) -> int:
    """Become a daemon, unless this pipe folder has one."""
    known = conduct(folder)
    if known.get("start") == "fail":
        return 1
    if known.get("start") == "hang":
        time.sleep(600)
    if known.get("start") == "slow":
        time.sleep(0.5)
    path = os.path.join(pipe, "nvidia-cuda-mps-control.pid")
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            if os.path.exists(f"/proc/{file.read().strip()}"):
                print(ALREADY)
                return 1
        os.unlink(os.path.join(pipe, "control"))
    if os.fork():
        return 0
    os.setsid()
    with open(path, "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    if known.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Daemon(folder, pipe, os.environ["CUDA_MPS_LOG_DIRECTORY"], static).serve()
    return 0


def smi(argv: list[str], folder: str) -> int:
    """`nvidia-smi --id=N --query-gpu=… --format=…`, and without --id all cards."""
    known = conduct(folder)
    if known.get("smi") == "hang":
        time.sleep(600)
    cards = known.get("cards", [])
    asked = [word.partition("=")[2] for word in argv if word.startswith("--id=")]
    found = [card for n, card in enumerate(cards) if {str(n), card.split(",")[0]} & set(asked)]
    if asked and not found:
        print("No devices were found")
        return 6
    print("\n".join(found if asked else cards))
    return 0


def main(argv: list[str]) -> int:
    """Whichever of the three programs this copy is."""
    folder, name = os.path.split(os.path.abspath(argv[0]))
    if name == SERVER:
        while os.getppid() != 1:
            time.sleep(0.2)
        return 0
    return control(argv, folder) if name == CONTROL else smi(argv, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
