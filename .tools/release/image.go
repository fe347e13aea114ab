package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// authorities is the path of the CA certificates on this machine. An edge needs them to call
// engines over https.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

type descriptor struct {
	MediaType string            `json:"mediaType"`
	Digest    string            `json:"digest"`
	Size      int               `json:"size"`
	Platform  map[string]string `json:"platform,omitempty"`
}

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image writes an image for both Linux systems, as an OCI layout in an archive. podman load, skopeo
// copy oci-archive: and docker load (since version 25) can read it. Like the image built by
// .deploy/Dockerfile, it contains the program and CA certificates, has no shell, and does not run
// as root.
func (r *release) image() error {
	certificates, err := os.ReadFile(authorities)
	if err != nil {
		return fmt.Errorf("the image needs certificates of authorities (package ca-certificates): %w", err)
	}
	l := layout{}
	var manifests []descriptor
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := os.ReadFile(r.program("linux/" + arch))
		if err != nil {
			return err
		}
		d, err := l.platform(arch, []file{{"penstock", program, 0o755}, {authorities[1:], certificates, 0o644}}, r.time)
		if err != nil {
			return err
		}
		manifests = append(manifests, d)
	}
	text, err := l.pack(manifests, r.version, r.time)
	if err != nil {
		return err
	}
	return r.write("penstock-oci.tar", text)
}

// layout collects the blobs of an image.
type layout struct{ blobs []file }

func (l *layout) add(mediaType string, text []byte) descriptor {
	sum := sha256.Sum256(text)
	name := hex.EncodeToString(sum[:])
	l.blobs = append(l.blobs, file{"blobs/sha256/" + name, text, 0o644})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: len(text)}
}

func (l *layout) addJSON(mediaType string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	return l.add(mediaType, text), err
}

func (l *layout) platform(arch string, files []file, at time.Time) (descriptor, error) {
	data, err := archive(files, at)
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(data)
	if data, err = compressed(data); err != nil {
		return descriptor{}, err
	}
	layer := l.add(typeLayer, data)
	config, err := l.addJSON(typeConfig, map[string]any{
		"created": at.Format(time.RFC3339), "architecture": arch, "os": "linux",
		"config": map[string]any{
			"User": "65532:65532", "StopSignal": "SIGTERM", "ExposedPorts": map[string]any{"4000/tcp": struct{}{}, "9090/tcp": struct{}{}},
			"Entrypoint": []string{"/penstock"}, "Cmd": []string{"serve", "--config", "/etc/penstock/penstock.yaml"},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
		"history": []any{map[string]any{"created": at.Format(time.RFC3339), "created_by": "penstock release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.addJSON(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{layer}})
	d.Platform = map[string]string{"os": "linux", "architecture": arch}
	return d, err
}

// pack returns the archive with all blobs.
func (l *layout) pack(manifests []descriptor, version string, at time.Time) ([]byte, error) {
	list, err := l.addJSON(typeIndex, map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests})
	if err != nil {
		return nil, err
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []any{map[string]any{
		"mediaType": list.MediaType, "digest": list.Digest, "size": list.Size,
		"annotations": map[string]string{"org.opencontainers.image.ref.name": "penstock:" + version},
	}}})
	if err != nil {
		return nil, err
	}
	return archive(append(l.blobs, file{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644}, file{"index.json", index, 0o644}), at)
}
