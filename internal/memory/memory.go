// Package memory says how much of the machine's memory the page cache may have.
package memory

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// ForCache returns how many bytes of files the page cache can hold for this process, those that it holds now included: what is
// available on the machine, or in one of the control groups that the process is in, if that is less. It is 0 where neither can be read.
func ForCache() int64 { return forCache("/") }

// forCache is ForCache for a system whose files are below root.
func forCache(root string) int64 {
	kib, ok := number(read(root, "proc/meminfo"), "MemAvailable:")
	if !ok {
		return 0
	}
	free := kib << 10
	for _, line := range strings.Split(string(read(root, "proc/self/cgroup")), "\n") {
		id, rest, _ := strings.Cut(line, ":")
		controllers, group, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case id == "0" && controllers == "":
			free = min(free, ofGroups(root, "sys/fs/cgroup", group, version2))
		case controllers == "memory":
			free = min(free, ofGroups(root, "sys/fs/cgroup/memory", group, version1))
		}
	}
	return max(0, free)
}

// files names what a control group's folder holds.
type files struct {
	limit, usage string
	cached       [2]string // lines of memory.stat
}

// Usage counts files too, but for these it can be had back.
var (
	version1 = files{"memory.limit_in_bytes", "memory.usage_in_bytes", [2]string{"total_active_file", "total_inactive_file"}}
	version2 = files{"memory.max", "memory.current", [2]string{"active_file", "inactive_file"}}
)

const unlimited = 1 << 62

// ofGroups returns what a control group and those above it leave. In a container a group's path may be the machine's, and the folder
// hold the container's alone: what is not there is passed over.
func ofGroups(root, folder, group string, f files) int64 {
	free := int64(unlimited)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		free = min(free, ofGroup(filepath.Join(root, folder, at), f))
		if at == "/" {
			return free
		}
	}
}

func ofGroup(folder string, f files) int64 {
	limit, limited := number(read(folder, f.limit), "")
	usage, ok := number(read(folder, f.usage), "")
	if !limited || !ok || limit >= unlimited { // "max", or version 1's way to say so
		return unlimited
	}
	stat := read(folder, "memory.stat")
	for _, name := range f.cached {
		cached, _ := number(stat, name)
		usage -= cached
	}
	return limit - usage
}

func read(elements ...string) []byte {
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		return nil // which no number is found in
	}
	return text
}

// number returns the number behind a line's first word; with no word, the text's own.
func number(text []byte, word string) (int64, bool) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if word != "" {
			if len(fields) < 2 || fields[0] != word {
				continue
			}
			fields = fields[1:]
		}
		if len(fields) == 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		return n, err == nil
	}
	return 0, false
}
