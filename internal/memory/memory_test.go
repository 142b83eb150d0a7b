package memory

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestForCache gives it the files of machines and containers.
func TestForCache(t *testing.T) {
	const meminfo = "MemTotal:       24684084 kB\nMemFree:        100 kB\nMemAvailable:   1000 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64 // for the cache
		all   int64 // of the machine
	}{
		"unknown": {nil, 0, 0},
		"machine": {map[string]string{"/proc/meminfo": meminfo}, 1000 << 10, 24684084 << 10},
		"version 2": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/memory.max": "900000\n", "/sys/fs/cgroup/a/memory.current": "600000\n", "/sys/fs/cgroup/a/memory.stat": "anon 1\nactive_file 100000\ninactive_file 50000\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/b/memory.current": "5\n",
		}, 450_000, 900_000},
		"version 1, in a container": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "4:memory:/docker/123\n3:cpuset:/\n0::/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "800000\n", "/sys/fs/cgroup/memory/memory.usage_in_bytes": "500000\n",
			"/sys/fs/cgroup/memory/memory.stat": "cache 7\ntotal_inactive_file 200000\ntotal_active_file 100000\n",
		}, 600_000, 800_000},
		"version 1, without a limit": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "/sys/fs/cgroup/memory/memory.usage_in_bytes": "500000\n",
		}, 1000 << 10, 24684084 << 10},
		"used up": {map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/\nnonsense\n", "/sys/fs/cgroup/memory.max": "900\n", "/sys/fs/cgroup/memory.current": "1000\n",
		}, 0, 900},
	} {
		s := system(func(path string) ([]byte, error) { return []byte(c.files[path]), nil })
		all, forCache := s.memory()
		testenv.Check(t, all == c.all && forCache == c.want,
			"%s: %d of the machine, %d for the cache; want %d, %d", name, all, forCache, c.all, c.want)
	}
	free, all := ForCache(), OfMachine()
	testenv.Check(t, free > 0 && all >= free, "this machine has %d bytes, and for the cache %d", all, free)
}
