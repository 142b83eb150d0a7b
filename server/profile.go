package server

import (
	"net"
	"net/http"
	"net/http/pprof"
)

// WithProfiles adds Go's profiles to what h serves, at /debug/pprof/. They are for this machine alone: a profile slows the server down while it is
// taken, and tells more of it than a page does. Who asks from elsewhere is told how to come from here.
func WithProfiles(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("/debug/pprof/"+path, fromHere(profile))
	}
	return mux
}

// fromHere serves requests of this machine.
func fromHere(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			http.Error(w, "profiles are given to this machine only: come through ssh -L, or from inside the container", http.StatusForbidden)
			return
		}
		h(w, r)
	}
}
