package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// caCertificatesPath is the path of the CA certificates on this machine. An edge needs them to call
// engines over https.
const caCertificatesPath = "/etc/ssl/certs/ca-certificates.crt"

type ociDescriptor struct {
	MediaType string            `json:"mediaType"`
	Digest    string            `json:"digest"`
	Size      int               `json:"size"`
	Platform  map[string]string `json:"platform,omitempty"`
}

const (
	mediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	mediaTypeManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaTypeConfig   = "application/vnd.oci.image.config.v1+json"
	mediaTypeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// writeImage writes an image for linux/amd64 and linux/arm64, as an OCI layout in an archive.
// podman load, skopeo copy oci-archive: and docker load (since version 25) can read it. Like the
// image built by .deploy/Dockerfile, it contains the program and CA certificates, has no shell, and
// does not run as root.
func (r *release) writeImage() error {
	certificates, err := os.ReadFile(caCertificatesPath)
	if err != nil {
		return fmt.Errorf("the image needs certificates of authorities (package ca-certificates): %w", err)
	}
	l := imageLayout{}
	var manifests []ociDescriptor
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := os.ReadFile(r.programPath("linux/" + arch))
		if err != nil {
			return err
		}
		d, err := l.addPlatformManifest(arch, []archivedFile{{"penstock", program, 0o755}, {caCertificatesPath[1:], certificates, 0o644}}, r.time)
		if err != nil {
			return err
		}
		manifests = append(manifests, d)
	}
	text, err := l.packLayout(manifests, r.version, r.time)
	if err != nil {
		return err
	}
	return r.writeFile("penstock-oci.tar", text)
}

// imageLayout collects the blobs of an image.
type imageLayout struct{ blobs []archivedFile }

func (l *imageLayout) addBlob(mediaType string, text []byte) ociDescriptor {
	sum := sha256.Sum256(text)
	name := hex.EncodeToString(sum[:])
	l.blobs = append(l.blobs, archivedFile{"blobs/sha256/" + name, text, 0o644})
	return ociDescriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: len(text)}
}

func (l *imageLayout) addJSON(mediaType string, v any) (ociDescriptor, error) {
	text, err := json.Marshal(v)
	return l.addBlob(mediaType, text), err
}

func (l *imageLayout) addPlatformManifest(arch string, files []archivedFile, at time.Time) (ociDescriptor, error) {
	data, err := packTarGz(files, at)
	if err != nil {
		return ociDescriptor{}, err
	}
	sum := sha256.Sum256(data)
	if data, err = gzipText(data); err != nil {
		return ociDescriptor{}, err
	}
	layer := l.addBlob(mediaTypeLayer, data)
	config, err := l.addJSON(mediaTypeConfig, map[string]any{
		"created": at.Format(time.RFC3339), "architecture": arch, "os": "linux",
		"config": map[string]any{
			"User": "65532:65532", "StopSignal": "SIGTERM", "ExposedPorts": map[string]any{"4000/tcp": struct{}{}, "9090/tcp": struct{}{}},
			"Entrypoint": []string{"/penstock"}, "Cmd": []string{"serve", "--config", "/etc/penstock/penstock.yaml"},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
		"history": []any{map[string]any{"created": at.Format(time.RFC3339), "created_by": "penstock release"}},
	})
	if err != nil {
		return ociDescriptor{}, err
	}
	d, err := l.addJSON(mediaTypeManifest, map[string]any{"schemaVersion": 2, "mediaType": mediaTypeManifest, "config": config, "layers": []ociDescriptor{layer}})
	d.Platform = map[string]string{"os": "linux", "architecture": arch}
	return d, err
}

// packLayout returns the archive with all blobs.
func (l *imageLayout) packLayout(manifests []ociDescriptor, version string, at time.Time) ([]byte, error) {
	list, err := l.addJSON(mediaTypeIndex, map[string]any{"schemaVersion": 2, "mediaType": mediaTypeIndex, "manifests": manifests})
	if err != nil {
		return nil, err
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": mediaTypeIndex, "manifests": []any{map[string]any{
		"mediaType": list.MediaType, "digest": list.Digest, "size": list.Size,
		"annotations": map[string]string{"org.opencontainers.image.ref.name": "penstock:" + version},
	}}})
	if err != nil {
		return nil, err
	}
	return packTarGz(append(l.blobs, archivedFile{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644}, archivedFile{"index.json", index, 0o644}), at)
}
