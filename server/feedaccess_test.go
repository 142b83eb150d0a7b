package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/feeder"
)

// An authority signs certificates for tests.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key := testenv.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert.Raw = testenv.Must(x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key))(t)
	return &authority{t, cert, key}
}

// folder writes the files of [Config].FeedTLS. change may change the certificate before it is signed.
func (a *authority) folder(change func(*x509.Certificate)) string {
	a.t.Helper()
	cert := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"imgfeed"}, NotAfter: time.Now().Add(time.Hour)}
	if change != nil {
		change(cert)
	}
	key := testenv.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	der := testenv.Must(x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key))(a.t)
	secret := testenv.Must(x509.MarshalPKCS8PrivateKey(key))(a.t)
	dir := a.t.TempDir()
	for name, block := range map[string]pem.Block{"ca.crt": {Type: "CERTIFICATE", Bytes: a.cert.Raw}, "tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: secret}} {
		writeIn(a.t, dir, name, string(pem.EncodeToMemory(&block)))
	}
	return dir
}

// writeIn writes a file of dir, and returns dir.
func writeIn(t testing.TB, dir, name, text string) string {
	t.Helper()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	return dir
}

// TestFeedTLS has servers and feeders with several files meet. All batches are right, and the log says what is wrong.
func TestFeedTLS(t *testing.T) {
	dir, sessions := feedSessions(t)
	want := startServer(t, dir, nil).dial().hello().open(sessions[0]).digest(0, nil)
	ours, other := newAuthority(t), newAuthority(t)
	folder := func() string { return ours.folder(nil) }
	for name, c := range map[string]struct {
		feeder, server string
		words          string // "" if the feeder helps
	}{
		"certificates": {folder(), folder(), ""},
		"other feeder": {other.folder(nil), folder(), "certificate signed by unknown authority"},
		"other server": {folder(), writeIn(t, other.folder(nil), "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.cert.Raw}))), "remote error: tls: "},
		"expired":      {ours.folder(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }), folder(), "certificate has expired"},
		"other name":   {ours.folder(func(c *x509.Certificate) { c.DNSNames = []string{"example.org"} }), folder(), "subjectAltName=DNS:imgfeed"},
		"plain feeder": {"", folder(), "both sides need --tls"},
		"plain server": {folder(), "", "both sides need --tls"},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := startFeeder(t, dir, func(cfg *Config) { cfg.FeedTLS = c.feeder })
			var log logText
			ts := startServer(t, dir, func(cfg *Config) {
				cfg.Threads, cfg.Feeders, cfg.FeedTLS, cfg.Log = loader.NoThreads, []string{address}, c.server, log.logger()
			})
			log.await(t, c.words)
			ts.awaitFeeders(c.words == "")
			testenv.Check(t, ts.dial().hello().open(sessions[0]).digest(0, nil) == want, "other batches than without feeders")
			work := ts.feeders.Status()
			testenv.Check(t, work.Late != 0 || (work.Samples > 0) == (c.words == ""), "the feeder made %d samples", work.Samples)
		})
	}
}

// TestFeedTLSFiles names files that are missing or wrong, before anything is served.
func TestFeedTLSFiles(t *testing.T) {
	ours := newAuthority(t)
	without := func(name string) string {
		dir := ours.folder(nil)
		testenv.OK(t, os.Remove(filepath.Join(dir, name)))
		return dir
	}
	otherKey := testenv.Must(os.ReadFile(filepath.Join(ours.folder(nil), "tls.key")))(t)
	for words, dir := range map[string]string{
		"ca.crt: no such file":          without("ca.crt"),
		"tls.crt: no such file":         without("tls.crt"),
		"tls.key: no such file":         without("tls.key"),
		"ca.crt holds no certificate":   writeIn(t, ours.folder(nil), "ca.crt", "hello"),
		"does not match public key":     writeIn(t, ours.folder(nil), "tls.key", string(otherKey)),
		"failed to find any PEM data":   writeIn(t, ours.folder(nil), "tls.crt", "hello"),
		"nowhere/tls.crt: no such file": "nowhere",
	} {
		access := feeder.Access(dir)
		_, dialling := feeder.NewList(&feeder.Host{Access: access}, []string{"127.0.0.1:7400"})
		_, listening := access.Listen("127.0.0.1:0")
		for _, err := range []error{dialling, listening} {
			testenv.Check(t, err != nil && (strings.Contains(err.Error(), words) || dir == "nowhere"), "got %v, want %s", err, words)
		}
	}
	testenv.Fails(startServer(t, oneSet(t, 2, 1), nil).ListenFeed("0.0.0.0:0"))(t, "give both sides --tls", "a plain feeder on all addresses")
}

// TestHostileTLS has a feeder meet peers that begin as TLS and go on otherwise. Each is gone soon, and a good one is served.
func TestHostileTLS(t *testing.T) {
	t.Parallel() // the feeder gives a silent peer some seconds
	dir := oneSet(t, 20, 1)
	folder := newAuthority(t).folder(nil)
	address, _ := startFeeder(t, dir, func(c *Config) { c.FeedTLS = folder })
	for name, sends := range map[string]string{
		"half a record": "\x16\x03\x01\x40\x00\x01",
		"garbage":       "\x16\x03\x01\x00\x20" + strings.Repeat("x", 32),
		"silent":        "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := testenv.Opened(net.Dial("tcp", address))(t)
			io.WriteString(conn, sends)
			io.ReadAll(conn) // until the feeder closes it
		})
	}
	t.Cleanup(func() {
		near := startServer(t, dir, func(c *Config) { c.Threads, c.Feeders, c.FeedTLS = loader.NoThreads, []string{address}, folder })
		near.awaitFeeders(true)
		checkServes(near)
	})
}

// TestSilentCrowd has a server reach its feeder past a thousand connections that say nothing. The feeder keeps few of them.
func TestSilentCrowd(t *testing.T) {
	dir := oneSet(t, 20, 1)
	folder := newAuthority(t).folder(nil)
	address, _ := startFeeder(t, dir, func(c *Config) { c.FeedTLS = folder })
	var open atomic.Int64
	for range 1100 {
		conn := testenv.Opened(net.Dial("tcp", address))(t)
		open.Add(1)
		go func() {
			io.Copy(io.Discard, conn) // until the feeder closes it
			open.Add(-1)
		}()
	}
	began := time.Now()
	near := startServer(t, dir, func(c *Config) { c.Threads, c.Feeders, c.FeedTLS = loader.NoThreads, []string{address}, folder })
	near.awaitFeeders(true)
	n, took := open.Load(), time.Since(began)
	testenv.Check(t, n <= 1000 && took <= feeder.HelloTimeout*4/5, "after %v the feeder keeps %d connections that say nothing", took, n)
	checkServes(near)
}

// TestBadConnectionsAreLoggedOnce logs one of hundreds of bad connections, of each kind.
func TestBadConnectionsAreLoggedOnce(t *testing.T) {
	var log logText
	address, _ := startFeeder(t, oneSet(t, 20, 1), func(c *Config) { c.Log = log.logger() })
	for range 100 {
		for _, sends := range []string{"GET / HTTP/1.1\r\n\r\n", "\x02\x00\x00\x00{}"} {
			conn := testenv.Must(net.Dial("tcp", address))(t)
			io.WriteString(conn, sends)
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}
	lines := strings.Count(log.String(), "ending the connection")
	testenv.Check(t, lines >= 1 && lines <= 2, "%d lines:\n%s", lines, &log)
}
