package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// lookUpEvery is how often feeders that a name or a file lists are looked up.
const lookUpEvery = 2 * time.Second

// A feederList keeps connections to the feeders that [Config].Feeders names.
type feederList struct {
	server *Server
	names  []string // host:port, dns:host:port or file:PATH

	mu      sync.Mutex
	feeders []*feeder // by address
}

func newFeederList(s *Server) (*feederList, error) {
	l := &feederList{server: s, names: s.cfg.Feeders}
	if len(l.names) > 0 {
		if _, _, err := s.feedAccess().ofServer(); err != nil {
			return nil, err
		}
	}
	for _, name := range l.names {
		if path, isFile := strings.CutPrefix(name, "file:"); isFile && path != "" {
			continue
		}
		host, isDNS := strings.CutPrefix(name, "dns:")
		if _, _, err := net.SplitHostPort(host); err != nil {
			return nil, fmt.Errorf("feeders %q: %w: want host:port, dns:host:port or file:PATH", name, err)
		}
		if !isDNS {
			if err := s.feedAccess().check(host); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// all returns the feeders that are listed now.
func (l *feederList) all() []*feeder {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.feeders)
}

// run keeps the list up to date until ctx ends.
func (l *feederList) run(ctx context.Context) {
	said := map[string]bool{}
	for ctx.Err() == nil {
		var listed []string
		complete := true
		for _, name := range l.names {
			addresses, err := l.lookUp(ctx, name)
			if err == nil {
				listed = append(listed, addresses...)
				continue
			}
			complete = false
			if text := err.Error(); !said[text] && ctx.Err() == nil {
				said[text] = true
				l.server.log.Warn("looking up feeders failed; those that were known stay", "feeders", name, "err", err)
			}
		}
		l.update(ctx, listed, complete)
		select {
		case <-time.After(lookUpEvery):
		case <-ctx.Done():
		}
	}
}

// lookUp returns the addresses that a name stands for.
func (l *feederList) lookUp(ctx context.Context, name string) (addresses []string, err error) {
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
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	for _, host := range hosts {
		addresses = append(addresses, net.JoinHostPort(host, port))
	}
	return addresses, l.check(addresses, err)
}

// check returns err, or what is wrong with one of the addresses.
func (l *feederList) check(addresses []string, err error) error {
	for _, address := range addresses {
		err = cmp.Or(err, l.server.feedAccess().check(address))
	}
	return err
}

// update starts feeders that are new, and stops those that are no longer listed if the list is complete.
func (l *feederList) update(ctx context.Context, listed []string, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if complete {
		l.feeders = slices.DeleteFunc(l.feeders, func(f *feeder) bool {
			gone := !slices.Contains(listed, f.address)
			if gone {
				f.stop()
			}
			return gone
		})
	}
	for _, address := range listed {
		if slices.ContainsFunc(l.feeders, func(f *feeder) bool { return f.address == address }) {
			continue
		}
		f := &feeder{server: l.server, address: address}
		var feeding context.Context
		feeding, f.stop = context.WithCancel(ctx)
		f.keep(feeding, 1)
		l.feeders = append(l.feeders, f)
	}
	slices.SortFunc(l.feeders, func(a, b *feeder) int { return cmp.Compare(a.address, b.address) })
}
