package feeder

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"unicode/utf8"
)

const (
	// tlsName is the name that a feeder's certificate must be for, whatever the machine's: one certificate does for all.
	tlsName = "imgfeed"
	// tokenMin and tokenMax bound a token.
	tokenMin, tokenMax = 16, 1024
)

// An Access is a folder of files that say who may connect: ca.crt, tls.crt, tls.key and perhaps token. They are read once for each
// connection, so that they may be renewed. "" is no TLS.
type Access string

// Listen listens for servers that [Serve] makes samples for.
func (a Access) Listen(address string) (net.Listener, error) {
	if err := a.check(address); err != nil {
		return nil, err
	}
	if _, _, err := a.settings(true); err != nil {
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

// settings returns those of TLS for one of the two ends, nil without TLS, and the token that a server must show. Without a token it
// must show a certificate.
func (a Access) settings(feeder bool) (cfg *tls.Config, token string, err error) {
	if a == "" {
		return nil, "", nil
	}
	path := func(name string) string { return filepath.Join(string(a), name) }
	text, err := os.ReadFile(path("token"))
	text = bytes.TrimSpace(text)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	case err == nil && (len(text) < tokenMin || len(text) > tokenMax):
		return nil, "", fmt.Errorf("%s has %d characters: a token has %d to %d", path("token"), len(text), tokenMin, tokenMax)
	}
	cfg = &tls.Config{MinVersion: tls.VersionTLS13, ServerName: tlsName, SessionTicketsDisabled: feeder}
	if feeder || len(text) == 0 {
		own, err := tls.LoadX509KeyPair(path("tls.crt"), path("tls.key"))
		if err != nil {
			return nil, "", fmt.Errorf("%s and %s: %w", path("tls.crt"), path("tls.key"), err)
		}
		cfg.Certificates = []tls.Certificate{own}
	}
	if !feeder || len(text) == 0 { // the certificates that sign those of the other end
		pem, err := os.ReadFile(path("ca.crt"))
		cfg.RootCAs = x509.NewCertPool()
		if err == nil && !cfg.RootCAs.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s holds no certificate in PEM", path("ca.crt"))
		}
		if err != nil {
			return nil, "", err
		}
	}
	if cfg.ClientCAs = cfg.RootCAs; len(text) == 0 {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg, string(text), nil
}

// secure returns the connection from a server as TLS, if this feeder asks for it, and the token that the server must show. The
// handshake comes with the first message.
func (a Access) secure(conn net.Conn) (net.Conn, string, error) {
	cfg, token, err := a.settings(true)
	if err != nil || cfg == nil {
		return conn, token, err
	}
	return tls.Server(conn, cfg), token, nil
}

// dial connects to a feeder, and returns the token to show it.
func (a Access) dial(ctx context.Context, address string) (net.Conn, string, error) {
	cfg, token, err := a.settings(false)
	if err != nil {
		return nil, "", err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil || cfg == nil {
		return conn, "", err
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, "", a.explain(err)
	}
	return secured, token, nil
}

// explain adds the remedy to the error of a greeting.
func (a Access) explain(err error) error {
	if alert, isOp := errors.AsType[*net.OpError](err); isOp && alert.Op == "remote error" {
		return fmt.Errorf("the feeder does not take what %s has: %w", a, alert.Err)
	}
	switch {
	case is[tls.RecordHeaderError](err):
		return errors.New("the feeder does not speak TLS: start it with --tls")
	case is[x509.UnknownAuthorityError](err):
		return fmt.Errorf("the feeder's certificate is not signed by %s: %w", filepath.Join(string(a), "ca.crt"), err)
	case is[x509.HostnameError](err):
		return fmt.Errorf("the feeder's certificate is not for the name %s: make it with subjectAltName=DNS:%[1]s: %w", tlsName, err)
	case is[x509.CertificateInvalidError](err):
		return fmt.Errorf("the feeder's certificate: %w", err)
	}
	return fmt.Errorf("the feeder does not answer the greeting: %w", err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
