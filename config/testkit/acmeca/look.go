package acmeca

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// checkChallenge checks the response to a challenge over the network.
func checkChallenge(reach DialFunc, kind, domain, token, answer string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch kind {
	case "http-01":
		return checkHTTPChallenge(ctx, reach, domain, token, answer)
	case "tls-alpn-01":
		return checkTLSChallenge(ctx, reach, domain, answer)
	}
	return errors.New("nobody can answer " + kind)
}

func checkHTTPChallenge(ctx context.Context, reach DialFunc, domain, token, answer string) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return reach(ctx, domain, "80")
	}}
	defer transport.CloseIdleConnections()
	at := "http://" + domain + "/.well-known/acme-challenge/" + token
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if err == nil && (res.StatusCode != http.StatusOK || string(text) != answer) {
		err = fmt.Errorf("the answer is %d with %d bytes", res.StatusCode, len(text))
	}
	return err
}

// acmeIdentifier is the certificate extension of RFC 8737.
var acmeIdentifier = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}

func checkTLSChallenge(ctx context.Context, reach DialFunc, domain, answer string) error {
	raw, err := reach(ctx, domain, "443")
	if err != nil {
		return err
	}
	conn := tls.Client(raw, &tls.Config{ // RFC 8737: the certificate is self-signed
		ServerName: domain, NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true,
	})
	defer conn.Close()
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != "acme-tls/1" {
		return errors.New("acme-tls/1 was not negotiated")
	}
	leaf := state.PeerCertificates[0]
	sum := sha256.Sum256([]byte(answer))
	want, err := asn1.Marshal(sum[:])
	if err != nil {
		return err
	}
	found := false
	for _, e := range leaf.Extensions {
		found = found || e.Id.Equal(acmeIdentifier) && e.Critical && bytes.Equal(e.Value, want)
	}
	err = leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature)
	if err != nil || !found || !slices.Equal(leaf.DNSNames, []string{domain}) {
		return errors.New("the certificate does not answer the challenge")
	}
	return nil
}
