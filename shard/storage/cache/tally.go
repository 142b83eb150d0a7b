package cache

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/crc32c"
)

// A tally says how full the folder is, for all processes. It begins the lock's file, with its CRC-32C behind it. A process that is killed
// while it writes may leave a wrong checksum, and the next one measures the folder.
type tally struct {
	Used     int64 // bytes on the disk, and those that are promised
	Promised int64 // bytes that are being written
	Limit    int64 // the lowest of the caches that are open
}

// Bytes of the lock's file that processes lock, beyond those of objects (objectByte): for use of the folder, to change the tally, and to
// measure.
const (
	useByte = 1<<62 + iota
	tallyByte
	measureByte

	wantedBytes = 1 << 60 // the first of the bytes of objects with a record that was read
)

// objectByte is the byte of the lock's file that stands for an object. Caches lock it for use until they are closed. To remove the object,
// one locks it alone, which fails while other caches use it, in this process or another.
func objectByte(id string) int64 {
	number, _ := strconv.ParseUint(id[:min(15, len(id))], 16, 63)
	return int64(number)
}

// lockByte locks or unlocks a byte of the lock's file, or fails at once if another process has it. The lock is the open file's: it ends
// with the process, however that ends, and does not exclude other goroutines of the same cache.
func (c *Cache) lockByte(at int64, how int16) error {
	return unix.FcntlFlock(c.lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: how, Start: at, Len: 1})
}

// awaitByte locks a byte that other processes hold for a moment.
func (c *Cache) awaitByte(at int64, how int16) (err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.FcntlFlock(c.lock.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: how, Start: at, Len: 1})
	}
	return err
}

// join notes that this process uses the folder. The first one measures it: processes that were killed leave a wrong tally.
func (c *Cache) join() (err error) {
	if c.lockByte(useByte, unix.F_WRLCK) == nil {
		err = c.lock.Truncate(0)
		c.countLocked(func(*tally) {})
	}
	return errors.Join(err, c.awaitByte(useByte, unix.F_RDLCK))
}

// readTally returns the tally, and whether it is whole.
func (c *Cache) readTally() (t tally, whole bool) {
	var buf [28]byte
	c.lock.ReadAt(buf[:], 0)
	binary.Decode(buf[:], binary.LittleEndian, &t) // The size of a tally is fixed.
	return t, binary.LittleEndian.Uint32(buf[24:]) == ^crc32c.Checksum(buf[:24])
}

// countLocked changes the tally. If it is damaged, the folder is measured. c.mu is locked, and change must not lock anything.
func (c *Cache) countLocked(change func(t *tally)) error {
	if err := c.awaitByte(tallyByte, unix.F_WRLCK); err != nil {
		c.pauseLocked(err)
		return err
	}
	defer c.lockByte(tallyByte, unix.F_UNLCK)
	t, whole := c.readTally()
	if !whole {
		t = tally{Used: c.Used(), Limit: math.MaxInt64}
	}
	t.Limit = min(t.Limit, cmp.Or(c.Max, math.MaxInt64)) // again, in case another process had no other
	change(&t)
	t.Used, t.Promised = max(0, t.Used), max(0, t.Promised)
	c.last = t
	buf, _ := binary.Append(nil, binary.LittleEndian, &t)
	c.lock.WriteAt(binary.LittleEndian.AppendUint32(buf, ^crc32c.Checksum(buf)), 0)
	return nil
}

// changeLocked counts what a change of a file takes of the disk. Others count, or measure the folder, before the change or after it.
func (c *Cache) changeLocked(path string, change func(path string) error) (err error) {
	counted := c.countLocked(func(t *tally) {
		t.Used -= onDisk(path)
		err = change(path)
		t.Used += onDisk(path)
	})
	return cmp.Or(counted, err)
}

// onDisk returns the bytes of the disk that a file uses; 0 if it is not there.
func onDisk(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return 512 * info.Sys().(*syscall.Stat_t).Blocks
}

// settle replaces a promise by what it took.
func (c *Cache) settle(promised, took int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countLocked(func(t *tally) { t.Used, t.Promised = t.Used+took-promised, t.Promised-promised })
}

// isOwn reports whether a file is this user's.
func isOwn(info fs.FileInfo) bool { return info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) }

// checkFolder refuses a folder that another user owns or can write to: a file there may be a link to any file of this user.
func checkFolder(dir string) error {
	link, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.IsDir() && isOwn(info) && info.Mode().Perm()&0o022 == 0 &&
		(isOwn(link) || link.Sys().(*syscall.Stat_t).Uid == 0) {
		return err
	}
	return fmt.Errorf("%s is not safe (%v, owner %d): it must be a folder of user %d that no other can write to: chmod go-w it if "+
		"it is yours, or name another one",
		dir, info.Mode(), info.Sys().(*syscall.Stat_t).Uid, os.Geteuid())
}

// openOwn opens a regular file of this user, or makes it. It follows no link.
func openOwn(path string) (*os.File, error) {
	const flags = os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	file, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if file, err = os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, 0o600); errors.Is(err, fs.ErrExist) { // another process made it
			file, err = os.OpenFile(path, flags, 0)
		}
	}
	info, statErr := os.Lstat(path)
	if err == nil {
		info, statErr = file.Stat()
	}
	if statErr == nil && (!info.Mode().IsRegular() || !isOwn(info) || info.Sys().(*syscall.Stat_t).Nlink > 1) {
		if err == nil {
			file.Close()
		}
		return nil, fmt.Errorf("%s is not a regular file of user %d alone (%v): remove it", path, os.Geteuid(), info.Mode())
	}
	return file, err
}
