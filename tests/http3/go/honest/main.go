// Command honest asks a server of HTTP/3, with quic-go on one connection, what honest programs ask, and says what was
// lost: bodies that are read in pieces of 4 KiB, contexts that end early, gzip, large uploads.
//
//	honest URL ROOT SCENE COUNT AT-A-TIME PATH   ROOT has the certificate of the authority
//	honest backend ADDRESS                       a server of HTTP/1.1 with /upload, /gzip and /slow, for a proxy of HTTP/3
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

var connections, asked, answered, cancelled, lost, received, sent atomic.Int64

func fail(err error) {
	if lost.Add(1) <= 5 {
		fmt.Println("lost:", err)
	}
}

func open(url, rootFile string) *http.Client {
	root, err := os.ReadFile(rootFile)
	if err != nil {
		log.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		QUICConfig:      &quic.Config{MaxIdleTimeout: 5 * time.Minute, KeepAlivePeriod: 10 * time.Second},
		Dial: func(ctx context.Context, address string, settings *tls.Config, config *quic.Config) (*quic.Conn, error) {
			connections.Add(1)
			connection, err := quic.DialAddrEarly(ctx, address, settings, config)
			if err == nil {
				go func() {
					<-connection.Context().Done()
					fmt.Println("the connection has ended:", context.Cause(connection.Context()))
				}()
			}
			return connection, err
		},
	}
	return &http.Client{Transport: transport}
}

// Reads a body in pieces of so many bytes.
func drain(body io.ReadCloser, piece int) (int64, error) {
	defer body.Close()
	buffer := make([]byte, piece)
	var total int64
	for {
		count, err := body.Read(buffer)
		total += int64(count)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func get(ctx context.Context, client *http.Client, url string, piece int) (int64, error) {
	request, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != 200 || response.Proto != "HTTP/3.0" {
		return 0, fmt.Errorf("%s %s", response.Proto, response.Status)
	}
	size, err := drain(response.Body, piece)
	if err == nil && response.ContentLength >= 0 && size != response.ContentLength {
		err = fmt.Errorf("%d of %d bytes", size, response.ContentLength)
	}
	received.Add(size)
	return size, err
}

type pattern struct{ at, size int64 }

func (p *pattern) Read(into []byte) (int, error) {
	if p.at == p.size {
		return 0, io.EOF
	}
	count := int64(len(into))
	if count > p.size-p.at {
		count = p.size - p.at
	}
	for i := int64(0); i < count; i++ {
		into[i] = byte((p.at + i) * 31 >> 3)
	}
	p.at += count
	return int(count), nil
}

func backend(address string) {
	http.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		size, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %x %v", size, sum.Sum(nil), err)
	})
	http.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
			w.Write(make([]byte, 100000))
		}
	})
	http.HandleFunc("/gzip", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		packed.Write(bytes.Repeat([]byte("honest "), 300000))
		packed.Close()
	})
	log.Fatal(http.ListenAndServe(address, nil))
}

func main() {
	if os.Args[1] == "backend" {
		backend(os.Args[2])
	}
	url, scene := strings.TrimSuffix(os.Args[1], "/"), os.Args[3]
	client := open(url, os.Args[2])
	count, _ := strconv.Atoi(os.Args[4])
	atATime, _ := strconv.Atoi(os.Args[5])
	path := os.Args[6]
	one := func(number int) {
		asked.Add(1)
		ctx := context.Background()
		switch scene {
		case "get": // bodies in pieces of 4 KiB
			if _, err := get(ctx, client, url+path, 4096); err != nil {
				fail(err)
			} else {
				answered.Add(1)
			}
		case "late": // contexts that end after 0 to 4 ms, nine of ten
			if number%10 == 0 {
				if _, err := get(ctx, client, url+path, 4096); err != nil {
					fail(err)
				} else {
					answered.Add(1)
				}
				return
			}
			limited, cancel := context.WithTimeout(ctx, time.Duration(rand.Intn(4000))*time.Microsecond)
			defer cancel()
			if _, err := get(limited, client, url+path, 4096); err == nil {
				answered.Add(1)
			} else if errors.Is(err, context.DeadlineExceeded) || limited.Err() != nil {
				cancelled.Add(1)
			} else {
				fail(err)
			}
		case "begun": // cancelled after 1,000 bytes, nine of ten
			if number%10 == 0 {
				if _, err := get(ctx, client, url+path, 4096); err != nil {
					fail(err)
				} else {
					answered.Add(1)
				}
				return
			}
			limited, cancel := context.WithCancel(ctx)
			defer cancel()
			request, _ := http.NewRequestWithContext(limited, "GET", url+path, nil)
			response, err := client.Do(request)
			if err != nil {
				fail(err)
				return
			}
			if _, err := io.ReadFull(response.Body, make([]byte, 1000)); err != nil {
				fail(err)
			}
			cancel()
			response.Body.Close()
			cancelled.Add(1)
		case "gzip":
			request, _ := http.NewRequest("GET", url+path, nil)
			response, err := client.Do(request)
			if err != nil {
				fail(err)
				return
			}
			size, err := drain(response.Body, 4096)
			if err != nil || !response.Uncompressed || size < 1000000 {
				fail(fmt.Errorf("%v, %v, %d bytes", err, response.Uncompressed, size))
				return
			}
			received.Add(size)
			answered.Add(1)
		case "upload":
			const size = 100000000
			sum := sha256.New()
			response, err := client.Post(url+path, "application/octet-stream", io.TeeReader(&pattern{0, size}, sum))
			if err != nil {
				fail(err)
				return
			}
			said, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if string(said) != fmt.Sprintf("%d %x <nil>", size, sum.Sum(nil)) {
				fail(errors.New(string(said)))
				return
			}
			sent.Add(size)
			answered.Add(1)
		default:
			log.Fatal("no scene ", scene)
		}
	}
	begun := time.Now()
	numbers := make(chan int)
	var all sync.WaitGroup
	for range atATime {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := range numbers {
				one(number)
			}
		}()
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	all.Wait()
	fmt.Printf("%s %s: %d requests, %d at a time: %d answered, %d cancelled, %d lost; %d MB received, %d MB sent, %d connections, %.1f s\n", scene, path,
		asked.Load(), atATime, answered.Load(), cancelled.Load(), lost.Load(), received.Load()/1000000, sent.Load()/1000000, connections.Load(), time.Since(begun).Seconds())
	if lost.Load() > 0 {
		os.Exit(1)
	}
}
