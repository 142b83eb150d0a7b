"""Feeders held to a part of a core, each behind a link of its own: images/s of 1, 2, 4 and 8 beside the sum of each alone, and what an image costs the server.

    sudo python bench/feeders/run.py SET [--rounds 5] [--seconds 8] [--share 0.1] [--link 1gbit]

It needs Linux with control groups of version 1 (cpu), iproute2 (ip, tc), openssl and two processors: the server and its client
have the first one, feeders the second. Nothing else should run.
"""

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("IMGFEED_BIN", str(ROOT / "bin" / "imgfeed"))

from imgfeed import DataLoader
from imgfeed.programs import find_binary

GROUPS = Path("/sys/fs/cgroup/cpu")
TRAIN = [{"op": "RandomResizedCrop", "size": 224}, {"op": "RandomHorizontalFlip"}]
MOST = 8


def shell(command, **options):
    return subprocess.run(command, shell=True, check=True, **options)


def certificates(folder):
    [commands] = re.findall(r"```sh\n(mkdir tls\n.*?)```", (ROOT / "docs" / "scaling.md").read_text(), re.DOTALL)
    shell(commands, cwd=folder, capture_output=True)
    return folder / "tls"


@contextlib.contextmanager
def links(rate):
    """Namespaces feeder0 to feeder7, each with a link of its own, at 10.99.I.2."""
    names = [f"feeder{i}" for i in range(MOST)]
    for i, name in enumerate(names):
        subprocess.run(f"ip netns del {name}", shell=True, capture_output=True, check=False)
        shell(
            f"ip netns add {name}; ip link add {name} type veth peer name inside netns {name}; ip addr add 10.99.{i}.1/24 dev {name}; ip link set {name} up;"
            f"ip -n {name} addr add 10.99.{i}.2/24 dev inside; ip -n {name} link set inside up;"
            f"ip netns exec {name} tc qdisc add dev inside root tbf rate {rate} burst 1m latency 50ms"
        )
    try:
        yield
    finally:
        for name in names:
            shell(f"ip netns del {name}")


def start(command, cpu, share=None):
    def enter():
        os.sched_setaffinity(0, {cpu})
        if share:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    if share:
        group = GROUPS / f"imgfeed-bench-{time.monotonic_ns()}"
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("20000")
        (group / "cpu.cfs_quota_us").write_text(str(int(20000 * share)))
    return subprocess.Popen(command, preexec_fn=enter, stdout=subprocess.DEVNULL)  # noqa: PLW1509


def processor_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def batches(loader):
    for epoch in range(1 << 30):
        loader.set_epoch(epoch)
        yield from loader


def measure(args, folder, feeders, *, plain=False, share=None, threads=0):
    """Return images/s with these feeders, and the server's microseconds of a processor for an image."""
    socket = folder / "s"
    secured = [] if plain else ["--tls", folder / "tls"]
    flags = ["--log-level", "error", *secured]
    addresses = [f"127.0.0.1:{7450 + i}" if plain else f"10.99.{i}.2:7400" for i in feeders]
    processes = []
    for i, address in zip(feeders, addresses, strict=True):
        where = [] if plain else ["ip", "netns", "exec", f"feeder{i}"]
        processes.append(start([*where, find_binary(), "feed", args.set, "--listen", address, "--threads", "1", *flags], 1, share))
    time.sleep(1)
    helped = ["--feeders", ",".join(addresses)] if feeders else []
    server = start([find_binary(), "serve", args.set, "--socket", socket, "--threads", str(threads), *helped, *flags], 0)
    processes.append(server)
    time.sleep(1.5)
    with DataLoader(f"unix:{socket}", 64, transform=TRAIN, framework="numpy", shuffle=True, seed=1, slots=16) as loader:
        images, begun, began = 0, 0.0, time.monotonic()
        for batch in batches(loader):
            now = time.monotonic()
            if not begun and now - began >= 3:
                begun, busy = now, processor_seconds(server)
            elif begun:
                images += len(batch[0])
                if now - begun >= args.seconds:
                    break
        result = images / (now - begun), (processor_seconds(server) - busy) / images * 1e6
    for process in reversed(processes):
        process.terminate()
        process.wait()
    for group in GROUPS.glob("imgfeed-bench-*"):
        group.rmdir()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--share", type=float, default=0.1, help="of a core, for each feeder")
    parser.add_argument("--link", default="1gbit", help="of each feeder")
    args = parser.parse_args()
    os.sched_setaffinity(0, {0})
    ratios, costs = {}, {}
    with tempfile.TemporaryDirectory() as name, links(args.link):
        folder = Path(name)
        certificates(folder)
        for _ in range(args.rounds):
            alone = [measure(args, folder, [i], share=args.share)[0] for i in range(MOST)]
            for n in (2, 4, 8):
                rate, _ = measure(args, folder, range(n), share=args.share)
                ratios.setdefault(n, []).append(rate / sum(alone[:n]))
                print(f"{n} feeders: {rate:.0f} images/s; alone: {' + '.join(f'{r:.0f}' for r in alone[:n])}", flush=True)
            for kind, (feeders, plain, threads) in {
                "decoded by its own thread": ((), True, 1), "from a feeder, plain": ((0,), True, 0), "from a feeder, TLS": ((0,), False, 0),
            }.items():
                rate, cost = measure(args, folder, feeders, plain=plain, threads=threads)
                costs.setdefault(kind, []).append(cost)
                print(f"{kind}: {rate:.0f} images/s, {cost:.0f} µs of the server's processor for each", flush=True)
    for n, all_of_them in ratios.items():
        print(f"{n} feeders: {statistics.median(all_of_them):.3f} of the sum of each alone ({min(all_of_them):.3f} to {max(all_of_them):.3f})")
    for kind, all_of_them in costs.items():
        print(f"{kind}: {statistics.median(all_of_them):.1f} µs ({min(all_of_them):.1f} to {max(all_of_them):.1f})")


if __name__ == "__main__":
    main()
