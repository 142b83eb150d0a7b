package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// onlyHosts refuses requests under other names than this machine's. Otherwise a foreign web page could point its own
// name to this address (DNS rebinding) and read the page through a browser here. Requests by address pass. So do
// /metrics and /healthz, which show no data and which monitors may request under any name.
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
		known := slices.ContainsFunc(allowed, func(name string) bool { return name != "" && strings.EqualFold(name, host) })
		if !open && !known && net.ParseIP(host) == nil {
			text := fmt.Sprintf("not served under the name %.80q: use an IP address, or imgfeed serve --metrics-host NAME", host)
			http.Error(w, text, http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
