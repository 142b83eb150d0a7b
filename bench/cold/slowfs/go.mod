module github.com/imgfeed/imgfeed/bench/cold/slowfs

go 1.26.0

toolchain go1.27.4

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	golang.org/x/sys v0.49.0
)
