package main

import (
	"bytes"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

// TestReload damages a set, has the server see it by the command and by SIGHUP, and mends it.
func TestReload(t *testing.T) {
	t.Parallel()
	// Under nohup SIGHUP is ignored, by the server too; what is taken here is not ignored in processes started from here.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	defer signal.Stop(hangups)
	path, dir := socketPath(t), oneSet(t)
	if out, err := imgfeed("reload", "--socket", path).CombinedOutput(); err == nil || !strings.Contains(string(out), "no server answers on "+path) {
		t.Errorf("without a server: %v, %s", err, out)
	}
	serve := imgfeed("serve", dir, "--socket", path)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	serve.Stderr = log
	refusals := func() int {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte("served on"))
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	hello(t, path)
	if out, err := imgfeed("reload", "--socket", path).CombinedOutput(); err != nil || string(out) != status.Unchanged+"\n" {
		t.Errorf("%v, %s", err, out)
	}
	set := filepath.Join(dir, "train-shards")
	if err := os.Rename(set, filepath.Join(dir, ".away")); err != nil {
		t.Fatal(err)
	}
	second := oneSet(t)
	if err := os.Rename(filepath.Join(second, "train-shards"), filepath.Join(dir, "val-shards")); err != nil {
		t.Fatal(err)
	}
	// What is in val-shards is a set of split train, the same as before.
	if out, err := imgfeed("reload", "--socket", path).CombinedOutput(); err != nil {
		t.Errorf("%v, %s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(dir, "val-shards")); err != nil {
		t.Fatal(err)
	}
	out, err := imgfeed("reload", "--socket", path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "nothing has changed: ") {
		t.Errorf("without any set: %v, %s", err, out)
	}
	if err := os.Rename(filepath.Join(dir, ".away"), set); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(set, "rank-0000", "00000.imgshard")); err != nil {
		t.Fatal(err)
	}
	out, err = imgfeed("reload", "--socket", path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "00000.imgshard is missing") || !strings.Contains(string(out), "served on") {
		t.Errorf("with a damaged set: %v, %s", err, out)
	}
	before := refusals()
	if err := serve.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(timeout); refusals() == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("SIGHUP did nothing")
		}
	}
	serve.Process.Signal(unix.SIGTERM)
	if err := serve.Wait(); err != nil {
		t.Error(err)
	}
}

// TestHangupWhileStarting has SIGHUP come before there is a server: it looks again once it serves.
func TestHangupWhileStarting(t *testing.T) {
	t.Parallel()
	keep := make(chan os.Signal, 1) // under nohup SIGHUP is ignored
	signal.Notify(keep, unix.SIGHUP)
	defer signal.Stop(keep)
	hangups := takeHangups()
	if err := unix.Kill(os.Getpid(), unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-keep
	sets, err := shard.FindAll(oneSet(t))
	if err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{}, 1)
	srv, err := server.New(server.Config{Found: sets, Log: slog.New(slog.DiscardHandler), Find: func() (shard.Found, error) {
		looked <- struct{}{}
		return sets, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	go hangups.reload(t.Context(), srv, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	select {
	case <-looked:
	case <-time.After(timeout):
		t.Error("SIGHUP before the server began did nothing")
	}
}
