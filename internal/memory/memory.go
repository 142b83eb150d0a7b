// Package memory says how much memory the machine has for this process, and how much of it the page cache may have.
package memory

import (
	"bytes"
	"cmp"
	"os"
	"path"
	"strconv"
	"strings"
)

// ForCache returns how many bytes of files the page cache can hold for this process, those that it holds now included: what is
// available on the machine, or in one of the control groups that the process is in, if that is less. It is 0 where neither can be read.
func ForCache() int64 { return system(read).forCache() }

// OfMachine returns the machine's memory in bytes, or what the control groups that the process is in allow of it, if that is less; a guess of
// 4 GiB where the machine's cannot be read.
func OfMachine() int64 { return cmp.Or(system(read).ofMachine(), 4<<30) }

// system returns the text of a system's file, nil for one that cannot be read.
type system func(path string) []byte

func read(path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // which no number is found in
	}
	return text
}

func (s system) forCache() int64  { return s.least("MemAvailable:", system.left) }
func (s system) ofMachine() int64 { return s.least("MemTotal:", system.limit) }

// least returns what the machine says, or what one of the process's control groups does, if that is less.
func (s system) least(line string, ofGroup func(s system, folder string, f files) int64) int64 {
	kib, ok := number(s("/proc/meminfo"), line)
	if !ok {
		return 0
	}
	bytes := min(kib, unlimited>>10) << 10
	for line := range strings.Lines(string(s("/proc/self/cgroup"))) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, ok := strings.Cut(rest, ":")
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

// ofGroups returns the least that is said of a control group and of those above it. In a container a group's path may be the machine's, and the
// folder hold the container's alone: what is not there is passed over.
func (s system) ofGroups(folder, group string, f files, ofGroup func(s system, folder string, f files) int64) int64 {
	least := int64(unlimited)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		least = min(least, ofGroup(s, path.Join(folder, at), f))
		if at == "/" {
			return least
		}
	}
}

// limit returns what a group may use.
func (s system) limit(folder string, f files) int64 {
	limit, limited := number(s(path.Join(folder, f.limit)), "")
	if !limited { // "max"
		return unlimited
	}
	return min(limit, unlimited) // in version 1 it is a number that says so
}

// left returns what a group may use and does not, its files' pages aside.
func (s system) left(folder string, f files) int64 {
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

// number returns the number behind a line's first word; with no word, the text's own. None is below 0.
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
