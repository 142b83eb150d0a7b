package feeder

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// tlsName is the name that a feeder's certificate must be for, whatever the machine's: one certificate does for all.
const tlsName = "imgfeed"

// An Access is a folder with ca.crt, tls.crt and tls.key, which say who may connect. They are read once for each connection, so that
// they may be renewed: nothing is kept in memory, and an open connection stays open. A read between two renewed files may find a pair
// that does not fit; then this connection fails, and the next one is tried. "" means without TLS.
type Access string

// Listen listens for servers that [Serve] makes samples for.
func (a Access) Listen(address string) (net.Listener, error) {
	if err := a.check(address); err != nil {
		return nil, err
	}
	if _, err := a.tlsConfig(); err != nil {
		return nil, err
	}
	return net.Listen("tcp", address)
}

// check refuses addresses beyond this machine without TLS: anybody on the network could read or replace the images.
func (a Access) check(address string) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return fmt.Errorf("feeder address %q: %w: want host:port", address, err)
	case !utf8.ValidString(address):
		return fmt.Errorf("feeder address %q: want host:port in UTF-8", address)
	}
	if ip := net.ParseIP(host); a != "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("feeder address %s is not of this machine alone: give both sides --tls, or use loopback addresses, "+
		"as 127.0.0.1:7400 by way of ssh -L", address)
}

// tlsConfig returns the TLS configuration, or nil without TLS. Both ends show a certificate that the other end's ca.crt has signed.
func (a Access) tlsConfig() (*tls.Config, error) {
	if a == "" {
		return nil, nil
	}
	path := func(name string) string { return filepath.Join(string(a), name) }
	own, err := tls.LoadX509KeyPair(path("tls.crt"), path("tls.key"))
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", path("tls.crt"), path("tls.key"), err)
	}
	pem, err := os.ReadFile(path("ca.crt"))
	if err != nil {
		return nil, err
	}
	signers := x509.NewCertPool()
	if !signers.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path("ca.crt"))
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: tlsName, SessionTicketsDisabled: true, Certificates: []tls.Certificate{own},
		RootCAs: signers, ClientCAs: signers, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// secure returns the connection from a server as TLS, if this feeder asks for it. The handshake comes with the first message, and so has
// the time of the greeting, on the connection's own goroutine: a silent peer holds up nobody who wants to connect.
func (a Access) secure(conn net.Conn) (net.Conn, error) {
	cfg, err := a.tlsConfig()
	if err != nil || cfg == nil {
		return conn, err
	}
	return tls.Server(conn, cfg), nil
}

// dial connects to a feeder.
func (a Access) dial(ctx context.Context, address string) (net.Conn, error) {
	cfg, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	if cfg == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", address)
}
