// Package memory reports the memory available to this process and to its page cache.
package memory

import (
	"bytes"
	"cmp"
	"os"
	"path"
	"strconv"
	"strings"
)

// ForCache returns how many bytes of files the page cache can hold for this process, including those that it holds now.
// It is the memory available on the machine, or in one of the process's control groups if that is less, and 0 if it
// cannot be read.
func ForCache() int64 { return system(read).forCache() }

// OfMachine returns the machine's memory in bytes, or the limit of the process's control groups if that is less. If it
// cannot be read, the result is a guess of 4 GiB.
func OfMachine() int64 { return cmp.Or(system(read).ofMachine(), 4<<30) }

// system returns the text of a system's file, or nil if it cannot be read.
type system func(path string) []byte

func read(path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // number finds no number in it
	}
	return text
}

func (s system) forCache() int64  { return s.smallest("MemAvailable:", system.available) }
func (s system) ofMachine() int64 { return s.smallest("MemTotal:", system.limit) }

// smallest returns the machine's number of bytes, or that of one of the process's control groups if it is less.
func (s system) smallest(line string, ofGroup func(s system, folder string, f files) int64) int64 {
	kib, ok := number(s("/proc/meminfo"), line)
	if !ok {
		return 0
	}
	bytes := min(kib, unlimited>>10) << 10
	for line := range strings.Lines(string(s("/proc/self/cgroup"))) {
		id, fields, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, ok := strings.Cut(fields, ":")
		switch {
		case !ok:
		case id == "0" && controllers == "":
			bytes = min(bytes, s.ofGroups("/sys/fs/cgroup", group, version2, ofGroup))
		case controllers == "memory":
			bytes = min(bytes, s.ofGroups("/sys/fs/cgroup/memory", group, version1, ofGroup))
		}
	}
	return max(0, bytes)
}

// files are the names of a control group's files.
type files struct {
	limit, usage string
	cached       [2]string // lines of memory.stat
}

// Usage includes cached files, which the kernel can reclaim.
var (
	version1 = files{"memory.limit_in_bytes", "memory.usage_in_bytes", [2]string{"total_active_file", "total_inactive_file"}}
	version2 = files{"memory.max", "memory.current", [2]string{"active_file", "inactive_file"}}
)

const unlimited = 1 << 62

// ofGroups returns the smallest number of a control group and those above it. In a container the group's path may be
// that on the host, while the folder holds only the container's groups. So missing groups are skipped.
func (s system) ofGroups(folder, group string, f files, ofGroup func(s system, folder string, f files) int64) int64 {
	smallest := int64(unlimited)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		smallest = min(smallest, ofGroup(s, path.Join(folder, at), f))
		if at == "/" {
			return smallest
		}
	}
}

// limit returns a group's memory limit.
func (s system) limit(folder string, f files) int64 {
	limit, limited := number(s(path.Join(folder, f.limit)), "")
	if !limited { // "max"
		return unlimited
	}
	return min(limit, unlimited) // version 1 has a huge number instead of "max"
}

// available returns a group's limit minus its usage without cached files.
func (s system) available(folder string, f files) int64 {
	limit := s.limit(folder, f)
	usage, ok := number(s(path.Join(folder, f.usage)), "")
	if limit == unlimited || !ok {
		return unlimited
	}
	stat := s(path.Join(folder, "memory.stat"))
	for _, name := range f.cached {
		cached, _ := number(stat, name)
		usage -= min(cached, usage)
	}
	return limit - usage
}

// number returns the number after a line's first word, or, without a word, the first number of the text. It must not be
// negative.
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
		if err != nil || n < 0 {
			return 0, false
		}
		return n, true
	}
	return 0, false
}
