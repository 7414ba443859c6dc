//! The rows of the database, and the handlers that read and write them. Single rows are kept for 200 ms.

use crate::items::{Item, Listed, Page, Rating};
use crate::App;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::Json;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};

const COLUMNS: &str = "SELECT id, name, category, price, quantity, active, tags, rating_score, rating_count FROM items";
const KEEP: Duration = Duration::from_millis(200);

pub struct Store {
    pool: Pool,
    /// The JSON of rows, and until when it is good.
    kept: RwLock<HashMap<i32, (Instant, Bytes)>>,
}

/// A failure of the database, as an answer.
pub struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0).into_response()
    }
}

type Answer = Result<Response, Failure>;

fn item(row: &Row) -> Item {
    Item {
        id: row.get(0),
        name: row.get(1),
        category: row.get(2),
        price: row.get(3),
        quantity: row.get(4),
        active: row.get(5),
        tags: row.get(6),
        rating: Rating { score: row.get(7), count: row.get(8) },
    }
}

impl Store {
    pub fn new(url: &str, connections: usize) -> Self {
        let config = url.parse().expect("the address of a database");
        let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager).max_size(connections).build().expect("a pool");
        Store { pool, kept: RwLock::default() }
    }

    async fn rows(&self, condition: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Item>, Failure> {
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(&format!("{COLUMNS} {condition}")).await?;
        Ok(connection.query(&statement, values).await?.iter().map(item).collect())
    }

    async fn change(&self, statement: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, Failure> {
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(statement).await?;
        Ok(connection.execute(&statement, values).await?)
    }
}

fn store(app: &App) -> Result<&Store, Failure> {
    app.store.as_ref().ok_or_else(|| Failure("there is no database".to_string()))
}

#[derive(Deserialize)]
pub struct Range {
    min: Option<i32>,
    max: Option<i32>,
    limit: Option<i64>,
}

pub async fn search(State(app): State<Arc<App>>, Query(range): Query<Range>) -> Answer {
    let (min, max) = (range.min.unwrap_or(10), range.max.unwrap_or(50));
    let limit = range.limit.unwrap_or(50).clamp(1, 50);
    let found = store(&app)?.rows("WHERE price BETWEEN $1 AND $2 LIMIT $3", &[&min, &max, &limit]).await?;
    Ok(Json(Listed::new(found)).into_response())
}

#[derive(Deserialize)]
pub struct Which {
    category: Option<String>,
    page: Option<i64>,
    limit: Option<i64>,
}

pub async fn page(State(app): State<Arc<App>>, Query(which): Query<Which>) -> Answer {
    let (page, limit) = (which.page.unwrap_or(1).max(1), which.limit.unwrap_or(10).clamp(1, 50));
    let category = which.category.as_deref().unwrap_or("electronics");
    let values: [&(dyn ToSql + Sync); 3] = [&category, &limit, &((page - 1) * limit)];
    let items = store(&app)?.rows("WHERE category = $1 ORDER BY id LIMIT $2 OFFSET $3", &values).await?;
    let total = items.len();
    Ok(Json(Page { items, total, page, limit }).into_response())
}

fn kept(state: &'static str, content: Bytes) -> Response {
    ([(CONTENT_TYPE.as_str(), "application/json"), ("x-cache", state)], content).into_response()
}

pub async fn read(State(app): State<Arc<App>>, Path(id): Path<i32>) -> Answer {
    let store = store(&app)?;
    let found = store.kept.read().unwrap().get(&id).cloned();
    if let Some((until, content)) = found {
        if Instant::now() < until {
            return Ok(kept("HIT", content));
        }
    }
    let found = store.rows("WHERE id = $1", &[&id]).await?;
    let Some(one) = found.first() else { return Ok(StatusCode::NOT_FOUND.into_response()) };
    let content = Bytes::from(serde_json::to_vec(one)?);
    store.kept.write().unwrap().insert(id, (Instant::now() + KEEP, content.clone()));
    Ok(kept("MISS", content))
}

/// What a client sends to make or change a row.
#[derive(Serialize, Deserialize)]
pub struct Written {
    id: Option<i32>,
    name: String,
    category: Option<String>,
    price: i32,
    quantity: i32,
}

pub async fn create(State(app): State<Arc<App>>, Json(row): Json<Written>) -> Answer {
    let Some(id) = row.id else { return Ok(StatusCode::BAD_REQUEST.into_response()) };
    let store = store(&app)?;
    let category = row.category.as_deref().unwrap_or("");
    let statement = "INSERT INTO items VALUES ($1, $2, $3, $4, $5, true, '[]', 0, 0) ON CONFLICT (id) DO UPDATE SET \
                     name = EXCLUDED.name, category = EXCLUDED.category, price = EXCLUDED.price, quantity = EXCLUDED.quantity";
    store.change(statement, &[&id, &row.name, &category, &row.price, &row.quantity]).await?;
    store.kept.write().unwrap().remove(&id);
    Ok((StatusCode::CREATED, Json(row)).into_response())
}

pub async fn update(State(app): State<Arc<App>>, Path(id): Path<i32>, Json(row): Json<Written>) -> Answer {
    let store = store(&app)?;
    let statement = "UPDATE items SET name = $2, price = $3, quantity = $4 WHERE id = $1";
    let changed = store.change(statement, &[&id, &row.name, &row.price, &row.quantity]).await?;
    store.kept.write().unwrap().remove(&id);
    if changed == 0 {
        return Ok(StatusCode::NOT_FOUND.into_response());
    }
    Ok(Json(Written { id: Some(id), ..row }).into_response())
}
