// Command go asks a server of files by HTTP/3, with quic-go: 300 files at once on one connection, and a large one.
// Usage: go URL ROOT, where URL has file0.txt to file99.txt, of 2,000 bytes more each, and large.bin; ROOT has the
// certificate of the authority.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func get(client *http.Client, url string) int {
	response, err := client.Get(url)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode != 200 || response.Proto != "HTTP/3.0" {
		log.Fatal(url, ": ", response.Proto, " ", response.Status)
	}
	return len(body)
}

func main() {
	url := strings.TrimSuffix(os.Args[1], "/")
	root, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	var connections atomic.Int32
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		Dial: func(ctx context.Context, address string, settings *tls.Config, config *quic.Config) (*quic.Conn, error) {
			connections.Add(1)
			return quic.DialAddrEarly(ctx, address, settings, config)
		},
	}
	defer transport.Close()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	var all sync.WaitGroup
	for number := range 300 {
		all.Add(1)
		go func() {
			defer all.Done()
			if size := get(client, fmt.Sprintf("%s/file%d.txt?%d", url, number%100, number)); size != 2000*(number%100) {
				log.Fatal("file", number%100, ": ", size, " bytes")
			}
		}()
	}
	all.Wait()
	fmt.Println(get(client, url+"/large.bin"), "bytes,", connections.Load(), "connection")
}
