//go:build unix

package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
	"penstock/config/testkit/selfsigned"
)

// TestRealStoreSentinel checks that the edges switch to a replica promoted by a sentinel after the
// primary was killed, and that the replica's data still count.
func TestRealStoreSentinel(t *testing.T) {
	t.Parallel()
	primary := newRealStore(t)
	replica := newRealStore(t, "--replicaof", "127.0.0.1 "+primary.port)
	rigged := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(rigged, []byte("sentinel monitor penstock 127.0.0.1 "+primary.port+" 1\n"+
		"sentinel down-after-milliseconds penstock 500\nsentinel failover-timeout penstock 2000\n"+
		"requirepass watcher\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := newRealProgram(t, func(port string) []string {
		return []string{rigged, "--sentinel", "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir()}
	})
	waitUntil(t, "the replica follows", func() bool {
		return strings.Contains(replica.command("INFO replication"), "master_link_status:up")
	})
	waitUntil(t, "the sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.command("AUTH watcher\r\nINFO sentinel"), "slaves=1")
	})
	fleet := newRealEdges(t, 4, StoreOptions{
		Addresses: []string{sentinel.address()}, SentinelMaster: "penstock", SentinelPassword: "watcher",
	})
	limits := config.KeyLimits{RequestsPerMinute: 600}
	began := time.Now()
	fleet.load(limits, 2*time.Millisecond, time.Second)
	waitUntil(t, "the replica has what was written", func() bool {
		return strings.Contains(replica.command("INFO replication"), "master_link_status:up") && replica.command("EXISTS ps:{k:a}") == ":1\r\n"
	})
	primary.signal(syscall.SIGKILL)
	fleet.load(limits, 2*time.Millisecond, 2*time.Second)
	fleet.wait(t, "the promoted replica is found", (*Fleet).Available)
	if !strings.Contains(replica.command("INFO replication"), "role:master") {
		t.Error("the replica is not promoted")
	}
	fleet.load(limits, 2*time.Millisecond, time.Second)
	// The maximum includes the edges' shares during the outage, and 2 % of a minute's limit for
	// data that the replica lacked.
	most := int64(600 + 10*time.Since(began).Seconds() + 0.02*600)
	if n := fleet.admitted.Load(); n < 600 || n > most {
		t.Errorf("%d requests of at most %d", n, most)
	}
	t.Logf("%d of at most %d requests", fleet.admitted.Load(), most)
}

// TestRealStoreCluster checks that accounts are distributed over all nodes of a cluster, and that
// an edge follows an account whose hash slot moves to another node.
func TestRealStoreCluster(t *testing.T) {
	t.Parallel()
	var nodes []*realStore
	for i := range 3 {
		n := newRealStore(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-config-file", fmt.Sprintf("nodes-%d.conf", i))
		n.command(fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", i*5461, min((i+1)*5461-1, 16383)+i/2))
		nodes = append(nodes, n)
	}
	for _, n := range nodes[1:] {
		nodes[0].command("CLUSTER MEET 127.0.0.1 " + n.port)
	}
	for _, n := range nodes {
		waitUntil(t, "the cluster is whole", func() bool {
			return strings.Contains(n.command("CLUSTER INFO"), "cluster_state:ok") && strings.Contains(n.command("CLUSTER INFO"), "cluster_known_nodes:3")
		})
	}
	fleet := newRealEdges(t, 3, StoreOptions{Addresses: []string{nodes[0].address()}, Cluster: true})
	limits := config.KeyLimits{RequestsPerMinute: 600}
	began := time.Now()
	for _, id := range []string{"b", "c", "d", "e"} { // with these keys and "a", every node has accounts
		for _, f := range fleet.edges {
			if d := newAccount(&f.edgeState, id).TakeRequest(limits, time.Now()); !d.OK {
				t.Errorf("key %s: TakeRequest = %+v, want OK", id, d)
			}
		}
	}
	held := 0
	for _, n := range nodes {
		if n.command("DBSIZE") != ":0\r\n" {
			held++
		}
	}
	if held < 2 {
		t.Errorf("%d nodes hold something", held)
	}
	fleet.load(limits, 2*time.Millisecond, time.Second)
	nodes[0].moveSlot(t, "ps:{k:a}", nodes)
	fleet.load(limits, 2*time.Millisecond, time.Second)
	fleet.wait(t, "the store is available", (*Fleet).Available)
	most := int64(600 + 10*time.Since(began).Seconds() + 0.02*600)
	if n := fleet.admitted.Load(); n < 600 || n > most {
		t.Errorf("%d requests of at most %d", n, most)
	}
	for i, key := range fleet.keys {
		if key.birth == "" {
			t.Errorf("edge %d has had no answer of the account", i)
		}
	}
}

// moveSlot moves a key's hash slot to another node, as an operator does after adding a node.
func (s *realStore) moveSlot(t *testing.T, key string, nodes []*realStore) {
	t.Helper()
	slot := strings.Trim(s.command("CLUSTER KEYSLOT "+key), ":\r\n")
	from := 0
	for i, n := range nodes {
		if !strings.HasPrefix(n.command("EXISTS "+key), "-MOVED") {
			from = i
		}
	}
	source, target := nodes[from], nodes[(from+1)%len(nodes)]
	id := func(n *realStore) string {
		return strings.TrimSpace(strings.SplitN(n.command("CLUSTER MYID"), "\n", 2)[1])
	}
	target.command("CLUSTER SETSLOT " + slot + " IMPORTING " + id(source))
	source.command("CLUSTER SETSLOT " + slot + " MIGRATING " + id(target))
	if got := source.command("MIGRATE 127.0.0.1 " + target.port + " " + key + " 0 1000"); got != "+OK\r\n" {
		t.Fatalf("MIGRATE answers %q, want +OK", got)
	}
	for _, n := range []*realStore{target, source} {
		if got := n.command("CLUSTER SETSLOT " + slot + " NODE " + id(target)); got != "+OK\r\n" {
			t.Fatalf("CLUSTER SETSLOT answers %q, want +OK", got)
		}
	}
}

// TestRealStoreTLS checks that edges can use a store that accepts only TLS, requires a client
// certificate, and has users.
func TestRealStoreTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := selfsigned.WritePair(t, dir, "store", time.Time{}, time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	acl := aclFile(t)
	store := newRealProgram(t, func(port string) []string {
		return []string{
			"--port", "0", "--tls-port", port, "--bind", "127.0.0.1", "--save", "", "--aclfile", acl, "--dir", dir,
			"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert,
		}
	})
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(leaf)
	o := StoreOptions{Addresses: []string{store.address()}, User: "penstock", Password: "secret", Prefix: "ps"}
	bare := newRemoteStore(o)
	o.TLS = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	anonymous := newRemoteStore(o)
	o.TLS = o.TLS.Clone()
	o.TLS.Certificates = []tls.Certificate{pair}
	stranger := o
	stranger.Password = "wrong"
	for what, r := range map[string]*remoteStore{
		"without TLS": bare, "without a certificate": anonymous, "of a wrong password": newRemoteStore(stranger),
	} {
		if err := beat(t, r); err == nil {
			t.Errorf("a connection %s is taken", what)
		}
		r.Close()
	}
	fleet := newRealEdges(t, 2, o)
	limits := config.KeyLimits{RequestsPerMinute: 600, TokensPerMinute: 5000, Concurrency: 3}
	var held []int64
	for i := range 4 {
		h, d := fleet.keys[i%2].Reserve(limits, 100, time.Now())
		if d.OK != (i < 3) {
			t.Fatalf("call %d: Reserve = %+v, want OK: %t", i, d, i < 3)
		}
		held = append(held, h)
	}
	fleet.keys[0].Settle(held[0], 50)
	fleet.keys[1].Settle(held[1], 50)
	fleet.keys[0].Settle(held[2], 50)
}

// aclFile writes an ACL file for a user that has exactly the documented permissions.
func aclFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "acl")
	text := "user default off\nuser penstock on >secret resetkeys ~ps:* resetchannels &ps:* " + storePermissions + "\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestRealStorePaused checks that while the store blocks all clients, only a few calls wait longer
// than the timeout, and the limit still applies.
func TestRealStorePaused(t *testing.T) {
	t.Parallel()
	store := newRealStore(t)
	fleet := newRealEdges(t, 4, StoreOptions{Addresses: []string{store.address()}})
	limits := config.KeyLimits{RequestsPerMinute: 600}
	began := time.Now()
	fleet.load(limits, 2*time.Millisecond, time.Second)
	store.command("CLIENT PAUSE 3000 ALL")
	fleet.load(limits, 2*time.Millisecond, time.Second)
	alone := uint64(0)
	for _, f := range fleet.edges {
		alone += f.edgeState.metrics.offlineDecisions.Get()
	}
	if alone == 0 {
		t.Error("no edge went on without the store")
	}
	fleet.wait(t, "the store is back", (*Fleet).Available)
	fleet.load(limits, 2*time.Millisecond, time.Second)
	if n, most := fleet.admitted.Load(), int64(600+10*time.Since(began).Seconds()+0.01*600); n < 600 || n > most {
		t.Errorf("%d requests of at most %d", n, most)
	}
}

// TestRealStoreEviction checks that a warning is logged if and only if the store may evict
// accounts.
func TestRealStoreEviction(t *testing.T) {
	t.Parallel()
	for policy, warned := range map[string]int{"noeviction": 0, "allkeys-lru": 1} {
		store := newRealStore(t, "--maxmemory-policy", policy)
		core, logs := observer.New(zap.WarnLevel)
		f := New(Options{
			Store: StoreOptions{Addresses: []string{store.address()}, Prefix: "ps"}, Timeout: 25 * time.Millisecond,
			WhenLost: config.StoreLostDivide, Log: zap.New(core), Metrics: metrics.NewSet(), Self: func() Member { return Member{} },
		})
		waitUntil(t, "the store is reached", func() bool { f.sendHeartbeat(t.Context()); return f.Available() })
		f.Close()
		if n := logs.FilterField(zap.String("maxmemory-policy", policy)).Len(); n != warned {
			t.Errorf("maxmemory-policy %s: %d warnings, want %d", policy, n, warned)
		}
	}
}

// freePort returns an unused port below those that the kernel assigns to connections and to other
// listeners. A killed store therefore finds its port free when it restarts. The port for traffic
// between cluster nodes is higher by 10,000. That port is also below the kernel's range, but above
// all ports that freePort returns. A cluster port accepts connections from clients and resets them,
// so it must not be mistaken for the store.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(11000 + rand.IntN(10000))
		if ln, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}
