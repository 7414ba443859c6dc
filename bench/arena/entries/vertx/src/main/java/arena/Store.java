package arena;

import arena.Items.Item;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import io.vertx.ext.web.handler.BodyHandler;
import io.vertx.pgclient.PgBuilder;
import io.vertx.pgclient.PgConnectOptions;
import io.vertx.sqlclient.Pool;
import io.vertx.sqlclient.PoolOptions;
import io.vertx.sqlclient.Row;
import io.vertx.sqlclient.Tuple;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/** The rows of the database, and the handlers that read and write them. Single rows are kept for 200 ms. */
final class Store {
  private static final String COLUMNS =
      "SELECT id, name, category, price, quantity, active, tags, rating_score, rating_count FROM items ";
  private static final long KEEP_NS = 200_000_000;

  private record Kept(Buffer content, long untilNs) {}

  private static final ConcurrentHashMap<Integer, Kept> kept = new ConcurrentHashMap<>();

  private final Pool pool;

  Store(Vertx vertx, String url, int connections) {
    PgConnectOptions options = PgConnectOptions.fromUri(url).setCachePreparedStatements(true).setPipeliningLimit(16);
    pool = PgBuilder.pool().with(new PoolOptions().setMaxSize(connections)).connectingTo(options).using(vertx).build();
  }

  private static Item item(Row row) {
    List<String> tags = new ArrayList<>();
    ((JsonArray) row.getValue(6)).forEach(tag -> tags.add((String) tag));
    return new Item(row.getInteger(0), row.getString(1), row.getString(2), row.getInteger(3), row.getInteger(4),
        row.getBoolean(5), tags, new Items.Rating(row.getInteger(7), row.getInteger(8)), null);
  }

  private Future<List<Item>> rows(String condition, Tuple values) {
    return pool.preparedQuery(COLUMNS + condition).execute(values).map(found -> {
      List<Item> items = new ArrayList<>(found.size());
      found.forEach(row -> items.add(item(row)));
      return items;
    });
  }

  private void search(RoutingContext context) {
    int limit = Main.between(1, 50, Main.number(context, "limit", 50));
    Tuple values = Tuple.of(Main.number(context, "min", 10), Main.number(context, "max", 50), limit);
    rows("WHERE price BETWEEN $1 AND $2 LIMIT $3", values)
        .onSuccess(items -> Main.json(context, 200, new Items.Listed(items, items.size()))).onFailure(context::fail);
  }

  private void page(RoutingContext context) {
    int page = Math.max(1, Main.number(context, "page", 1));
    int limit = Main.between(1, 50, Main.number(context, "limit", 10));
    String category = context.request().getParam("category", "electronics");
    rows("WHERE category = $1 ORDER BY id LIMIT $2 OFFSET $3", Tuple.of(category, limit, (page - 1) * limit))
        .onSuccess(items -> Main.json(context, 200, new Items.Page(items, items.size(), page, limit))).onFailure(context::fail);
  }

  private static void answer(RoutingContext context, String state, Buffer content) {
    context.response().putHeader("Content-Type", "application/json").putHeader("X-Cache", state).end(content);
  }

  private void read(RoutingContext context) {
    int id = Integer.parseInt(context.pathParam("id"));
    Kept known = kept.get(id);
    if (known != null && System.nanoTime() - known.untilNs < 0) {
      answer(context, "HIT", known.content);
      return;
    }
    rows("WHERE id = $1", Tuple.of(id)).onFailure(context::fail).onSuccess(items -> {
      if (items.isEmpty()) {
        context.response().setStatusCode(404).end();
        return;
      }
      Buffer content = Main.encode(items.get(0));
      kept.put(id, new Kept(content, System.nanoTime() + KEEP_NS));
      answer(context, "MISS", content);
    });
  }

  private static JsonObject shown(int id, JsonObject row) {
    return new JsonObject().put("id", id).put("name", row.getString("name")).put("price", row.getInteger("price"))
        .put("quantity", row.getInteger("quantity"));
  }

  private void create(RoutingContext context) {
    JsonObject row = context.body().asJsonObject();
    int id = row.getInteger("id");
    Tuple values = Tuple.of(id, row.getString("name"), row.getString("category", ""), row.getInteger("price"),
        row.getInteger("quantity"));
    pool.preparedQuery("INSERT INTO items VALUES ($1, $2, $3, $4, $5, true, '[]', 0, 0) ON CONFLICT (id) DO UPDATE SET "
            + "name = EXCLUDED.name, category = EXCLUDED.category, price = EXCLUDED.price, quantity = EXCLUDED.quantity")
        .execute(values).onFailure(context::fail).onSuccess(done -> {
          kept.remove(id);
          Main.json(context, 201, shown(id, row));
        });
  }

  private void update(RoutingContext context) {
    JsonObject row = context.body().asJsonObject();
    int id = Integer.parseInt(context.pathParam("id"));
    pool.preparedQuery("UPDATE items SET name = $2, price = $3, quantity = $4 WHERE id = $1")
        .execute(Tuple.of(id, row.getString("name"), row.getInteger("price"), row.getInteger("quantity")))
        .onFailure(context::fail).onSuccess(done -> {
          kept.remove(id);
          if (done.rowCount() == 0) {
            context.response().setStatusCode(404).end();
          } else {
            Main.json(context, 200, shown(id, row));
          }
        });
  }

  void route(Router router) {
    router.get("/async-db").handler(this::search);
    router.get("/crud/items").handler(this::page);
    router.get("/crud/items/:id").handler(this::read);
    router.post("/crud/items").handler(BodyHandler.create()).handler(this::create);
    router.put("/crud/items/:id").handler(BodyHandler.create()).handler(this::update);
  }
}
