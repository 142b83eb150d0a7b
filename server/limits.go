package server

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
)

const (
	slotsMax = 4096
	// autoRingBytes is 13 batches of 256 × 224 × 224: 30 ms of two threads that serve a pixels set. From a batch that is
	// ready to its slot's return both processes have to be woken, and on cores that are all busy each wake-up can take some
	// milliseconds of the kernel's scheduler and of Go's. With 6 slots workers were seen to wait.
	autoRingBytes  = 512 << 20
	autoSlotsMin   = 3
	autoSlotsMax   = 16
	autoSlotsShort = 2 // when memory is short: one to fill, one to lend
)

// A budget is an amount of memory that sessions share.
type budget struct {
	mu        sync.Mutex
	max, used int64
}

// A LimitError means that a session asks for more memory than there is for it.
type LimitError struct {
	Want, Used, Max int64 // bytes
	Slots           int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d slots take %s, and other sessions hold %s of the %s that the server may use for batches: ask for fewer slots or smaller batches, or start imgfeed with a larger --memory",
		e.Slots, FormatBytes(e.Want), FormatBytes(e.Used), FormatBytes(e.Max))
}

// take reserves a ring of slots slots, or, when slots is 0, of as many as are sensible. It returns their number.
func (b *budget) take(slots int, slotBytes int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	auto := slots == 0
	if auto {
		slots = int(min(max(autoRingBytes/slotBytes, autoSlotsMin), autoSlotsMax))
	}
	for {
		if slotBytes <= (b.max-b.used)/int64(slots) {
			b.used += int64(slots) * slotBytes
			return slots, nil
		}
		if !auto || slots <= autoSlotsShort {
			return 0, &LimitError{Want: int64(slots) * slotBytes, Used: b.used, Max: b.max, Slots: slots}
		}
		slots--
	}
}

// give returns n bytes.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used -= n; b.used < 0 {
		panic("server: more memory given back than taken")
	}
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// memoryOfMachine returns the machine's memory in bytes, or what the control group allows of it; a guess of 4 GiB where
// neither can be read.
func memoryOfMachine() int64 {
	total := int64(4 << 30)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if _, rest, ok := bytes.Cut(text, []byte("MemTotal:")); ok {
			if fields := bytes.Fields(rest); len(fields) > 0 {
				if kib, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil {
					total = kib << 10
				}
			}
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil {
			total = min(total, limit)
		}
	}
	return total
}

// FormatBytes writes a size for people: "1.5 GiB".
func FormatBytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// ParseBytes is the inverse of [FormatBytes], and takes "512MiB", "8G" (of 1024) and plain numbers too.
func ParseBytes(text string) (int64, error) {
	trimmed := bytes.TrimSpace([]byte(text))
	digits := bytes.TrimRight(trimmed, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	shift, ok := map[string]uint{
		"": 0, "b": 0, "bytes": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[string(bytes.ToLower(bytes.TrimSpace(trimmed[len(digits):])))]
	n, err := strconv.ParseFloat(string(digits), 64)
	if err != nil || !ok || n <= 0 || n*float64(int64(1)<<shift) > 1<<60 {
		return 0, fmt.Errorf("%q is no size: want a number with KiB, MiB or GiB behind it", text)
	}
	return int64(n * float64(int64(1)<<shift)), nil
}
