package server

import (
	"encoding/json"
	"errors"
	"maps"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

// A modelFolder is what a folder holds of a split: how many samples, and as bits which of two partitions are whole. Without any it cannot be
// opened.
type modelFolder struct{ samples, partitions int }

// modelFolders are the folders between which a split moves.
var modelFolders = map[string]modelFolder{
	"whole": {6, 3}, "again": {6, 3}, "other": {8, 3}, "first": {6, 1}, "second": {6, 2}, "torn": {6, 1},
	"empty": {}, "damaged": {}, "absent": {}, "lost": {},
}

// write writes the folder of a split.
func (f modelFolder) write(t *testing.T, dir, name, split string) {
	dir = filepath.Join(dir, name, split)
	writeSet(t, dir, split, max(6, f.samples), 2)
	shards := []string{filepath.Join(dir, "rank-0000/00000.imgshard"), filepath.Join(dir, "rank-0001/00000.imgshard")}
	switch name {
	case "first", "second":
		testenv.OK(t, os.RemoveAll(filepath.Dir(shards[f.partitions&1])))
	case "torn":
		testenv.OK(t, os.Truncate(shards[1], 99))
	case "empty":
		testenv.OK(t, errors.Join(os.Truncate(shards[0], 0), os.Truncate(shards[1], 0)))
	case "damaged":
		testenv.OK(t, os.Truncate(filepath.Join(dir, "manifest.json"), 60))
	case "absent":
		testenv.OK(t, os.RemoveAll(dir))
	}
}

// A modelCatalog is a server and a plain list of what is served, and of who has which set.
type modelCatalog struct {
	*testServer
	rng     *rand.Rand
	dir     string
	folders map[string]string      // where a reload looks for a split
	served  map[string]modelFolder // what is served of a split
	known   map[*openSet]int       // all sets that were ever served, with their partitions
	users   [5]modelUser
}

// A modelUser has a session, or a set as a feeder has it, or nothing. It does one thing in a step.
type modelUser struct {
	*client                        // of a session
	release func()                 // of a feeder
	split   string                 // of the set that it has or asks for
	needs   int                    // partitions, as bits
	has     *loader.Dataset        // nil: nothing
	epochs  int64                  // that were begun
	asks    func(modelFolder) bool // asks for the set in this step: whether it gets it, where this is served; nil: it does not ask
	held    *loader.Dataset        // as a feeder
	refused bool                   // in this step
}

// find looks for the sets, as a server does for a reload.
func (m *modelCatalog) find() (shard.Found, error) {
	found := shard.Found{Sets: map[string]string{}}
	for split, folder := range m.folders {
		if folder == "lost" {
			return found, errors.New("a folder is lost")
		}
		if one, err := shard.FindAll(filepath.Join(m.dir, folder, split)); err == nil {
			maps.Copy(found.Sets, one.Sets)
			found.Damaged = append(found.Damaged, one.Damaged...)
		}
	}
	return found, nil
}

// refuses reports whether a server of a split refuses a folder of it.
func (f modelFolder) refuses(next modelFolder) bool {
	return f.partitions > 0 && (next.samples != f.samples || f.partitions&^next.partitions != 0)
}

// reload moves the splits to other folders, seldom to those that are refused. It returns what has the server look again, and compares its
// answer with the list.
func (m *modelCatalog) reload() func() {
	next, same, refused := map[string]modelFolder{}, true, false
	for _, split := range []string{"train", "val"} {
		names, is := slices.Sorted(maps.Keys(modelFolders)), modelFolder{}
		for again := true; again; again = m.served[split].refuses(is) && m.rng.IntN(20) > 0 {
			m.folders[split] = names[m.rng.IntN(len(names))]
			is = modelFolders[m.folders[split]]
		}
		if is.partitions > 0 {
			next[split] = is
		}
		same = same && m.served[split].partitions == is.partitions
		refused = refused || m.folders[split] == "lost" || m.served[split].refuses(is)
	}
	return func() {
		changes, err := m.Reload()
		if (err != nil) != refused || err == nil && slices.Equal(changes, []string{status.Unchanged}) != same {
			m.t.Errorf("a reload of %v, while %v are served: %v, %v", m.folders, m.served, changes, err)
		}
		if !refused {
			m.served = next
		}
	}
}

// reply returns the answer to a session's request; refused if it is an error. It gives batches before it back, and counts their samples.
func reply[M any](c *client) (m M, refused bool, samples int) {
	for {
		switch got := c.receive().(type) {
		case M:
			return got, false, samples
		case errorMessage:
			return m, true, samples
		case batchMessage:
			samples += len(c.checkBatch(got))
			c.send(releaseRequest{Slot: *got.Slot})
		case endMessage: // of an epoch that was left
		default:
			c.t.Fatalf("got %#v, want a %T", got, m)
		}
	}
}

// ask returns what opens a session, which may have a fault that is found once it has the set; or what takes a set as a feeder does.
func (m *modelCatalog) ask(u *modelUser) func() {
	selects, fault := m.rng.IntN(4) == 0, m.rng.IntN(18)
	u.split, u.needs = []string{"train", "val"}[m.rng.IntN(2)], 1+m.rng.IntN(3)
	r := openRequest{Split: u.split, Transform: onePixel, BatchSize: 2, Slots: 2, Selects: selects}
	if u.needs < 3 {
		r.Rank, r.World = of(u.needs-1), of(2)
	}
	switch fault {
	case 0:
		r.Slots = -1
	case 1:
		r.Transform = json.RawMessage(`"no such preset"`)
	case 2: // more than the memory
		r.Transform, r.BatchSize = json.RawMessage(`[{"op":"Resize","size":[4000,4000]}]`), 20
	case 3, 4, 5, 6, 7:
		u.asks = func(f modelFolder) bool { return f.partitions > 0 }
		return func() {
			var err error
			_, u.held, u.release, err = m.host.Hold(u.split)
			u.refused = err != nil
		}
	}
	u.asks = func(f modelFolder) bool {
		return f.partitions > 0 && (selects || u.needs&^f.partitions == 0) && fault > 2
	}
	return func() {
		c := m.dial().hello()
		c.send(r)
		if c.opened, u.refused, _ = reply[openedReply](c); u.refused {
			c.close()
			return
		}
		c.mapRing()
		u.client = c
	}
}

// leave returns what ends a session, or a feeder's use.
func (m *modelCatalog) leave(u *modelUser) func() {
	c := u.client
	u.client, u.has, u.held = nil, nil, nil
	if c == nil {
		return u.release
	}
	return func() {
		c.close()
		testenv.Until(m.t, func() bool { return m.session(c) == nil })
	}
}

// session returns the server's end of a client; nil if it is not in its list.
func (m *modelCatalog) session(c *client) *connection {
	for _, other := range m.list() {
		if other.id == c.opened.Session {
			return other
		}
	}
	return nil
}

// begin returns what begins an epoch, and serves it to its end or leaves it. A bad one is refused.
func (m *modelCatalog) begin(u *modelUser) func() {
	bad, whole, samples := m.rng.IntN(5) == 0, m.rng.IntN(2) == 0, u.opened.Samples
	u.asks = func(f modelFolder) bool { return u.needs&^f.partitions == 0 && !bad }
	u.epochs++
	r := startRequest{Epoch: u.epochs}
	if bad {
		r.Consumed = -1
	}
	if u.needs < 3 {
		samples /= 2
	}
	return func() {
		u.send(r)
		if _, u.refused, _ = reply[startedReply](u.client); u.refused || !whole {
			return
		}
		if _, failed, got := reply[endMessage](u.client); failed || got != samples {
			m.t.Errorf("an epoch fails: %v, with %d of %d samples", failed, got, samples)
		}
	}
}

// look returns what makes the pictures of a session, or asks for a key of its set.
func (m *modelCatalog) look(u *modelUser) func() {
	index, pictures, partitions := m.rng.IntN(2), m.rng.IntN(2) == 0, 0
	for set := range m.known {
		if set.Dataset == u.has {
			partitions = m.known[set]
		}
	}
	return func() {
		if pictures {
			m.session(u.client).session.Load().mayMake()
			m.batch(u.opened.Session)
			return
		}
		u.send(keyRequest{Index: index})
		if _, refused, _ := reply[keyReply](u.client); refused != (partitions>>index&1 == 0) {
			m.t.Errorf("the key of sample %d, with partitions %b, is refused: %v", index, partitions, refused)
		}
	}
}

// step lets some users do something, and somebody reload, all at the same time, and compares once they have done it.
func (m *modelCatalog) step() {
	before, was := m.catalog.Load(), m.served
	var acts []func()
	for i := range m.users {
		u := &m.users[i]
		u.asks, u.refused = nil, false
		switch op := m.rng.IntN(12); {
		case op > 6:
		case u.has == nil:
			acts = append(acts, m.ask(u))
		case op == 0 || u.client == nil:
			acts = append(acts, m.leave(u))
		case op < 3:
			acts = append(acts, m.look(u))
		default:
			acts = append(acts, m.begin(u))
		}
	}
	if m.rng.IntN(3) == 0 {
		acts = append(acts, m.reload())
	}
	var all sync.WaitGroup
	for _, i := range m.rng.Perm(len(acts)) {
		all.Go(acts[i])
	}
	all.Wait()
	for i := range m.users {
		m.settle(&m.users[i], before, was)
	}
	m.compare(1)
}

// settle notes which set a user has. One that has asked got the set that is served, before this step or after it. One that was refused, or
// has not asked, has the same as before.
func (m *modelCatalog) settle(u *modelUser, before *catalog, was map[string]modelFolder) {
	var may []*loader.Dataset
	for c, served := range map[*catalog]map[string]modelFolder{before: was, m.catalog.Load(): m.served} {
		switch {
		case u.asks == nil || u.refused && !u.asks(served[u.split]):
			may = append(may, u.has)
		case !u.refused && u.asks(served[u.split]):
			may = append(may, c.sets[u.split].Dataset)
		}
	}
	if u.has = u.held; u.client != nil {
		u.has = m.session(u.client).session.Load().snapshot.Load().set.Dataset
	}
	if !slices.Contains(may, u.has) {
		m.t.Errorf("a user of split %s has set %p, want one of %p; refused: %v", u.split, u.has, may, u.refused)
	}
}

// compare compares the users of all sets with the list. Of the catalog's it is one, or 0. Sets without users are closed, and no others.
func (m *modelCatalog) compare(catalog int) {
	want := map[*loader.Dataset]int{}
	for split, set := range m.catalog.Load().sets {
		want[set.Dataset], m.known[set] = catalog, m.served[split].partitions
	}
	for _, u := range m.users {
		want[u.has]++
	}
	files := 0
	for set, partitions := range m.known {
		users := want[set.Dataset]
		_, _, err := set.Read(partitions>>1&^partitions, nil) // a sample of the first partition that is here
		if set.using() != users || (err == nil) != (users > 0) || users == 0 && set.acquire() {
			m.t.Errorf("a set has %d users, want %d; a read: %v", set.using(), users, err)
		}
		if users > 0 {
			files += bits.OnesCount(uint(partitions))
		}
	}
	if open := m.open(); open != files {
		m.t.Errorf("%d shards are open, want %d", open, files)
	}
}

// open counts the shards that are open; not those that are open once more for direct reads.
func (m *modelCatalog) open() (files int) {
	for _, entry := range testenv.Must(os.ReadDir("/proc/self/fd"))(m.t) {
		path, _ := os.Readlink("/proc/self/fd/" + entry.Name())
		number, _ := strconv.Atoi(entry.Name())
		if flags, _ := unix.FcntlInt(uintptr(number), unix.F_GETFL, 0); strings.HasPrefix(path, m.dir) && flags&unix.O_DIRECT == 0 {
			files++
		}
	}
	return files
}

// end closes the server, with sessions or without, and lets feeders release their sets only then.
func (m *modelCatalog) end() {
	left := m.rng.IntN(2) == 0
	for i := range m.users {
		if u := &m.users[i]; u.client != nil {
			if leave := m.leave(u); left {
				leave()
			}
		}
	}
	testenv.OK(m.t, m.stop())
	m.compare(0)
	for i := range m.users {
		if u := &m.users[i]; u.has != nil {
			m.leave(u)()
		}
	}
	m.compare(0)
}

// TestCatalogInterleavings lets sessions and feeders come, read and go, and sets change and be found again, at random and at the same time.
// It compares who has which set with a plain list, in each step and once the server is closed.
func TestCatalogInterleavings(t *testing.T) {
	runs := uint64(40)
	if testing.Short() {
		runs = 2
	}
	dir := t.TempDir()
	for name, f := range modelFolders {
		f.write(t, dir, name, "train")
		f.write(t, dir, name, "val")
	}
	for seed := range runs {
		var log logText
		first := []string{"whole", "first", "torn"}[seed%3]
		m := &modelCatalog{rng: rand.New(rand.NewPCG(seed, 2)), dir: dir, known: map[*openSet]int{}}
		m.folders, m.served = map[string]string{"train": first, "val": "absent"}, map[string]modelFolder{"train": modelFolders[first]}
		m.testServer = startServer(t, filepath.Join(dir, first), func(c *Config) {
			c.Found, c.Find, c.Log, c.MemoryBytes = testenv.Must(m.find())(t), m.find, log.logger(), 64<<20
		})
		m.compare(1)
		for step := 0; step < 60 && !t.Failed(); step++ {
			m.step()
		}
		m.end()
		testenv.Require(t, !t.Failed() && !strings.Contains(log.String(), "closing a set failed"), "seed %d: %s", seed, &log)
	}
}
