package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"

	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/shard"
)

// A program serves all sets of a folder until it is stopped, with the status page beside them.
func Example() {
	found, err := shard.FindAll("/data/imagenet")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server.New(server.Config{Found: found, Name: "example 1.0"})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	listener, err := server.Listen(server.DefaultSocket(), server.SocketMode)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("unix:" + listener.Path())
	go http.ListenAndServe("127.0.0.1:9090", srv.Handler())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := srv.Serve(ctx, listener); err != nil {
		log.Print(err)
	}
}
