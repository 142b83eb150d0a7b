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

// ForCache returns how many bytes of files the page cache can hold for this process, including those that it holds now. It is the memory
// available on the machine, or in one of the process's control groups if that is less, and 0 if it cannot be read.
func ForCache() int64 {
	_, forCache := system(os.ReadFile).memory()
	return forCache
}

// OfMachine returns the machine's memory in bytes, or the limit of the process's control groups if that is less. If it
// cannot be read, the result is a guess of 4 GiB.
func OfMachine() int64 {
	ofMachine, _ := system(os.ReadFile).memory()
	return cmp.Or(ofMachine, 4<<30)
}

// system reads the system's files.
type system func(path string) ([]byte, error)

// files are the names of a control group's files.
type files struct {
	folder, limit, usage string
	cached               [2]string // lines of memory.stat
}

// Usage includes cached files, which the kernel can reclaim.
var (
	version1 = files{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
		[2]string{"total_active_file", "total_inactive_file"}}
	version2 = files{"/sys/fs/cgroup", "memory.max", "memory.current", [2]string{"active_file", "inactive_file"}}
)

// memory returns the results of OfMachine and ForCache; 0 for what cannot be read.
func (s system) memory() (ofMachine, forCache int64) {
	total, _ := s.number("/proc/meminfo", "MemTotal:")
	available, _ := s.number("/proc/meminfo", "MemAvailable:")
	ofMachine, forCache = total<<10, available<<10
	groups, _ := s("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 || fields[1] != "" && fields[1] != "memory" {
			continue
		}
		f := version1
		if fields[1] == "" {
			f = version2
		}
		// A group is bounded by those above it, too. In a container its path may be that on the host, while the folder holds only the
		// container's groups: missing groups are skipped.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			folder := path.Join(f.folder, group)
			if limit, limited := s.number(path.Join(folder, f.limit), ""); limited {
				usage, _ := s.number(path.Join(folder, f.usage), "")
				for _, name := range f.cached {
					cached, _ := s.number(path.Join(folder, "memory.stat"), name)
					usage -= cached
				}
				ofMachine, forCache = min(ofMachine, limit), max(0, min(forCache, limit-max(0, usage)))
			}
			if group == "/" {
				break
			}
		}
	}
	return ofMachine, forCache
}

// number returns the number after the first word of a line, or, without a word, the first number of the file. It is not negative.
func (s system) number(path, word string) (int64, bool) {
	text, _ := s(path)
	for line := range bytes.Lines(text) {
		if rest, found := strings.CutPrefix(string(line), word); found {
			fields := append(strings.Fields(rest), "")
			n, err := strconv.ParseInt(fields[0], 10, 64)
			return max(0, n), err == nil && n >= 0
		}
	}
	return 0, false
}
