package feeder

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/server/status"
)

// lookUpEvery is how often feeders that a name or a file lists are looked up. It is the pause between two look-ups, however long one takes.
const lookUpEvery = 2 * time.Second

// A List keeps links to the feeders that a server names.
//
// What holds, under mu: feeders has those that the last look-up found, and if that was not complete, those before it too. The goroutines of
// each run until it leaves the list or the server ends. A feeder that comes back is a new one, and counts from 0.
//
// Run alone changes the list; any goroutine may ask for its status. The lock is not held during a look-up or while a connection is made.
type List struct {
	host  *Host
	names []string // host:port, dns:host:port or file:PATH

	mu      sync.Mutex
	feeders map[string]*feeder // guarded by mu; keyed by address
}

// NewList checks names of feeders: host:port; dns:host:port for all addresses of a name; or file:PATH, a file that lists addresses. It
// looks nothing up and reads no list: those may come later than the server, and change.
func NewList(host *Host, names []string) (*List, error) {
	l := &List{host: host, names: names, feeders: map[string]*feeder{}}
	if len(names) > 0 {
		if _, err := host.Access.tlsConfig(); err != nil {
			return nil, err
		}
	}
	for _, name := range l.names {
		if path, isFile := strings.CutPrefix(name, "file:"); isFile && path != "" {
			continue
		}
		address, isDNS := strings.CutPrefix(name, "dns:")
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("feeders %q: %w: want host:port, dns:host:port or file:PATH", name, err)
		}
		if !isDNS {
			if err := host.Access.check(address); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// Run keeps the list up to date until ctx ends. It looks up all names first, and changes the list in one step. Where a look-up fails, those
// that were known stay: a missing name server must not end working links.
func (l *List) Run(ctx context.Context) {
	for ctx.Err() == nil {
		var listed []string
		complete := true
		for _, name := range l.names {
			addresses, err := l.lookUp(ctx, name)
			if err == nil || ctx.Err() != nil {
				listed = append(listed, addresses...)
				continue
			}
			complete = false
			l.host.Warn(l.host.Log, name+err.Error(), "looking up feeders failed; those that were known stay", "feeders", name, "err", err)
		}
		l.update(ctx, listed, complete)
		select {
		case <-time.After(lookUpEvery):
		case <-ctx.Done():
		}
	}
}

// lookUp returns the addresses that a name stands for. A file or a name is read anew each time, so feeders can be added and removed while
// epochs run. A forbidden address makes the look-up of its name fail.
func (l *List) lookUp(ctx context.Context, name string) (addresses []string, err error) {
	if path, isFile := strings.CutPrefix(name, "file:"); isFile {
		text, err := os.ReadFile(path)
		addresses = strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \t\r\n,", r) })
		return addresses, l.check(addresses, err)
	}
	name, isDNS := strings.CutPrefix(name, "dns:")
	if !isDNS {
		return []string{name}, nil
	}
	host, port, _ := net.SplitHostPort(name)
	ctx, cancel := context.WithTimeout(ctx, HelloTimeout)
	defer cancel()
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	for _, host := range hosts {
		addresses = append(addresses, net.JoinHostPort(host, port))
	}
	return addresses, l.check(addresses, err)
}

// check returns err, or what is wrong with one of the addresses.
func (l *List) check(addresses []string, err error) error {
	for _, address := range addresses {
		err = cmp.Or(err, l.host.Access.check(address))
	}
	return err
}

// update starts new feeders, and if the list is complete stops those that it no longer has. A stopped one ends the piece that it makes,
// which the workers here make again, and what it has counted goes with it.
func (l *List) update(ctx context.Context, listed []string, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for address, f := range l.feeders {
		if complete && !slices.Contains(listed, address) {
			f.stop()
			delete(l.feeders, address)
		}
	}
	for _, address := range listed {
		if l.feeders[address] != nil {
			continue
		}
		f := &feeder{host: l.host, address: address, status: status.Feeder{Address: address}}
		var feeding context.Context
		feeding, f.stop = context.WithCancel(ctx)
		f.keep(feeding, 1)
		l.feeders[address] = f
	}
}

// Status counts what the feeders on the list have done. It returns nil if the server names no feeders. The counts of each feeder are of one
// moment, and the sum is that of the feeders as they are listed.
func (l *List) Status() *status.Feeders {
	if len(l.names) == 0 {
		return nil
	}
	st := &status.Feeders{Each: []status.Feeder{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(l.feeders)) {
		f := l.feeders[address]
		f.mu.Lock()
		of := f.status
		f.mu.Unlock()
		st.Each = append(st.Each, of)
		st.Add(of.FeederWork)
	}
	return st
}
