package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// onlyHosts refuses requests for other names than this machine's: a web page elsewhere can have its own name stand for this address (DNS rebinding), and read
// what a browser here may read. Addresses are no names; /metrics and /healthz, which a monitor may ask for under any name, show no data.
func onlyHosts(h http.Handler, names []string) http.Handler {
	own, _ := os.Hostname()
	short, _, _ := strings.Cut(own, ".")
	allowed := append([]string{"localhost", own, short}, names...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		open := r.URL.Path == "/metrics" || r.URL.Path == "/healthz"
		if !open && net.ParseIP(host) == nil && !slices.ContainsFunc(allowed, func(name string) bool { return name != "" && strings.EqualFold(name, host) }) {
			http.Error(w, fmt.Sprintf("not served under the name %.80q: ask by an address, or start the server with --metrics-host and that name", host), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
